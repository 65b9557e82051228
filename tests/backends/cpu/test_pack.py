"""The packed bytes: the same from every instruction set, for every scheme and shape, and the same piece by piece."""

import numpy as np
import pytest
from tests.backends.cpu.test_linear import DENSE, SCHEMES, random_rows

from pelton.backends.cpu import _native
from pelton.checkpoint.scheme import get_scheme

pytestmark = pytest.mark.cpu

ROWS = (1, 63, 64, 65, 200)


def row_sizes(scheme: str) -> tuple[int, ...]:
    if scheme in DENSE:
        return (1, 31, 32, 75, 96)
    block_size = get_scheme(scheme).block_size
    return tuple(count * block_size for count in (1, 3, 5))


@pytest.fixture(params=["avx2", "avx512"])
def fast_isa(request):
    before = _native.isa()
    try:
        _native.set_isa(request.param)
    except ValueError:
        pytest.skip(f"this machine has no {request.param}")
    yield request.param
    _native.set_isa(before)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_version_packs_the_bytes_of_the_generic_one(fast_isa, scheme):
    for num_rows in ROWS:
        for k in row_sizes(scheme):
            rows = random_rows(scheme, num_rows, k)
            _native.set_isa(fast_isa)
            fast = _native.pack(scheme, rows, k)
            _native.set_isa("generic")
            np.testing.assert_array_equal(fast, _native.pack(scheme, rows, k), err_msg=f"{num_rows} x {k}")


@pytest.mark.parametrize("scheme", ["Q8_0", "Q6_K", "F16"])
def test_a_row_changes_the_bytes_of_its_own_strip_alone(scheme):
    k = row_sizes(scheme)[-1]
    rows = random_rows(scheme, 200, k)
    packed = _native.pack(scheme, rows, k).reshape(4, -1)
    rows[70] ^= 0x55
    changed = _native.pack(scheme, rows, k).reshape(4, -1)
    assert (packed != changed).any(axis=1).tolist() == [False, True, False, False]


def test_rows_that_are_not_of_the_scheme_are_refused():
    with pytest.raises(ValueError, match="33"):
        _native.pack("Q8_0", np.zeros((3, 33), np.uint8), 32)
