"""What a tensor takes in a file is known from its shape and scheme alone."""

from __future__ import annotations

import numpy as np
import pytest

from pelton.checkpoint.outgoing import Outgoing, outgoing
from pelton.checkpoint.weight import Tensor
from pelton.errors import CheckpointError

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("shape", "scheme", "nbytes"),
    [((), "F32", 4), ((3,), "F16", 6), ((2, 3), "BF16", 12), ((2, 256), "Q4_K", 288), ((2, 2, 32), "Q8_0", 136)],
)
def test_bytes_follow_from_shape_and_scheme(shape: tuple[int, ...], scheme: str, nbytes: int) -> None:
    assert Outgoing("w", shape, scheme, lambda: np.zeros((1, nbytes), np.uint8)).nbytes == nbytes


def test_rows_that_do_not_fill_blocks_are_refused() -> None:
    with pytest.raises(CheckpointError, match="multiple of 32"):
        _ = Outgoing("w", (2, 31), "Q8_0", lambda: np.zeros((2, 1), np.uint8)).nbytes


def test_a_tensor_goes_out_as_it_is() -> None:
    rows = np.arange(12, dtype=np.uint8).reshape(2, 6)
    out = outgoing("new", Tensor("old", (2, 3), "BF16", rows))
    assert (out.name, out.shape, out.scheme, out.nbytes) == ("new", (2, 3), "BF16", rows.nbytes)
    assert out.make() is rows
