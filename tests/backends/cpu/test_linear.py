"""Packed weights against the gguf package and float64, for every scheme and every instruction set of this machine.

Tolerances are relative to the root mean square of the outputs. Float sums of a few hundred terms err by about 1e-6;
1e-5 leaves room for cancellation and is far below what a wrong scale, minimum or zero point would give.
"""

from __future__ import annotations

from collections.abc import Iterator

import gguf
import numpy as np
import numpy.typing as npt
import pytest
from tests.conformance.scheme import set_scales

from pelton.backends.cpu import _native
from pelton.checkpoint.dequantize import dequantize_rows
from pelton.checkpoint.scheme import GROUPED, get_scheme
from pelton.checkpoint.scheme import QUANTIZED as ALL_QUANTIZED

pytestmark = pytest.mark.cpu

Floats = npt.NDArray[np.float32]
Bytes = npt.NDArray[np.uint8]

DENSE = ("F32", "F16", "BF16")
QUANTIZED = tuple(sorted(ALL_QUANTIZED))
SCHEMES = DENSE + QUANTIZED
INSTRUCTION_SETS = ("generic", "avx2", "avx512")
AVAILABLE = INSTRUCTION_SETS[: INSTRUCTION_SETS.index(_native.detected_isa()) + 1]
TOLERANCE = 1e-5


@pytest.fixture(params=AVAILABLE)
def isa(request: pytest.FixtureRequest) -> Iterator[str]:
    """Runs the test once per instruction set, and leaves the process with the one it had."""
    before = _native.isa()
    _native.set_isa(request.param)
    yield request.param
    _native.set_isa(before)


def random_rows(scheme: str, n: int, k: int, seed: int = 0) -> Bytes:
    """A weight [N, row_bytes] with every integer and every small scale possible, and d of either sign."""
    rng = np.random.default_rng(seed)
    values = rng.standard_normal((n, k), dtype=np.float32)
    if scheme == "F32":
        return values.view(np.uint8)
    if scheme == "F16":
        return values.astype(np.float16).view(np.uint8)
    if scheme == "BF16":
        return (values.view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)
    known = get_scheme(scheme)
    blocks = rng.integers(0, 256, (n * k // known.block_size, known.block_bytes), dtype=np.uint8)
    set_scales(scheme, blocks, rng.standard_normal((len(blocks), 1)) * 0.01)
    return blocks.reshape(n, -1)


def row_size(scheme: str, *, odd: int = 75) -> int:
    """K that is not a whole number of slabs, where the scheme allows it."""
    return odd if scheme in DENSE else {32: 480, 128: 384, 256: 512}[get_scheme(scheme).block_size]


def activations(m: int, k: int, seed: int = 1) -> Floats:
    return np.random.default_rng(seed).standard_normal((m, k), dtype=np.float32)


def rounded(x: Floats, scheme: str) -> npt.NDArray[np.float64]:
    """What the kernel makes of an activation: bf16 for BF16 weights, unchanged for wider ones, int8 for blocks.

    The tile of 32 with the largest value of a slab of 128 has the step largest / 127; the others have it halved as
    often as their own values allow.
    """
    if scheme == "BF16":
        bits = x.view(np.uint32)
        return ((bits + 0x7FFF + (bits >> 16 & 1)) & np.uint32(0xFFFF0000)).view(np.float32).astype(np.float64)
    if scheme in DENSE:
        return x.astype(np.float64)
    slabs = np.zeros((len(x), -(-x.shape[1] // 128) * 128), np.float32)
    slabs[:, : x.shape[1]] = x
    tiles = slabs.reshape(len(x), -1, 4, 32)
    largest = np.abs(tiles).max(axis=-1, keepdims=True)
    most = largest.max(axis=-2, keepdims=True)
    halvings = np.floor(np.log2(most.astype(np.float64) / np.maximum(largest, most / 2048)))
    power = np.exp2(-np.minimum(halvings, 10)).astype(np.float32)
    integers = np.rint(tiles * (np.float32(127) / most / power)).astype(np.float64)
    values = integers * (most / np.float32(127) * power).astype(np.float64)
    return values.reshape(len(x), -1)[:, : x.shape[1]]


def error(y: Floats, expected: npt.NDArray[np.float64]) -> float:
    return float(np.abs(y - expected).max() / np.sqrt(np.square(expected).mean()))


@pytest.mark.parametrize("scheme", SCHEMES)
def test_dequantize_gives_the_bits_of_the_format(scheme: str) -> None:
    k = row_size(scheme)
    rows = random_rows(scheme, 9, k)
    if scheme in GROUPED:
        expected = dequantize_rows(scheme, rows)
    else:
        expected = np.asarray(gguf.dequantize(rows, gguf.GGMLQuantizationType[scheme]), dtype=np.float32)
    np.testing.assert_array_equal(_native.dequantize(scheme, rows, k).view(np.uint32), expected.view(np.uint32))


def test_every_half_is_dequantized_exactly() -> None:
    halves = np.arange(1 << 16, dtype=np.uint16)
    values = _native.dequantize("F16", halves.view(np.uint8)[None], 1 << 16)[0]
    np.testing.assert_array_equal(values, halves.view(np.float16).astype(np.float32))


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("exact", [False, True])
def test_linear_agrees_with_float64(isa: str, scheme: str, exact: bool) -> None:
    n, k = 100, row_size(scheme)
    rows, bias = random_rows(scheme, n, k), activations(1, n, 7)[0]
    x = activations(41, k)
    weight = _native.dequantize(scheme, rows, k).astype(np.float64)
    expected = (x.astype(np.float64) if exact else rounded(x, scheme)) @ weight.T + bias
    assert error(_native.linear(scheme, rows, n, k, x, bias, exact), expected) < TOLERANCE


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_row_gives_the_same_bits_alone_and_among_others(isa: str, scheme: str) -> None:
    n, k = 70, row_size(scheme)
    rows = random_rows(scheme, n, k)
    x = activations(40, k)
    together = _native.linear(scheme, rows, n, k, x)
    for count in range(1, 41):
        first = 40 - count
        np.testing.assert_array_equal(_native.linear(scheme, rows, n, k, x[first:].copy()), together[first:])


@pytest.mark.parametrize("scheme", ["Q5_0", "Q6_K", "BF16", "F32"])
@pytest.mark.parametrize("exact", [False, True])
def test_passes_and_threads_do_not_change_the_bits(isa: str, scheme: str, exact: bool) -> None:
    n, k = 130, row_size(scheme)
    rows = random_rows(scheme, n, k)
    x = activations(131, k)  # one pass of 128 rows and one of 3
    one_thread = _native.linear(scheme, rows, n, k, x, None, exact)
    np.testing.assert_array_equal(_native.linear(scheme, rows, n, k, x, None, exact, 3), one_thread)
    np.testing.assert_array_equal(_native.linear(scheme, rows, n, k, x[128:].copy(), None, exact), one_thread[128:])


@pytest.mark.parametrize("scheme", QUANTIZED)
@pytest.mark.parametrize("bits", [0x00, 0xFF])
def test_integer_sums_do_not_saturate(isa: str, scheme: str, bits: int) -> None:
    """All integers at their ends, all activations at 127: the sums are exact, so only float rounding is left."""
    n, k = 64, 256
    known = get_scheme(scheme)
    blocks = np.full((n * k // known.block_size, known.block_bytes), bits, np.uint8)
    if scheme == "Q8_0":
        blocks[:, 2:] = np.array([-128 if bits else 127], np.int8).view(np.uint8)
    if scheme in GROUPED:
        blocks[:, 4] = 0xFF - bits  # the zero point
    set_scales(scheme, blocks, np.full((len(blocks), 1), 0.5))
    rows = blocks.reshape(n, -1)
    x = np.full((5, k), 1.0, np.float32)
    x[1] = -1.0
    expected = rounded(x, scheme) @ _native.dequantize(scheme, rows, k).astype(np.float64).T
    np.testing.assert_allclose(_native.linear(scheme, rows, n, k, x), expected, rtol=TOLERANCE)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("n", [1, 63, 64, 65])
def test_any_number_of_channels(scheme: str, n: int) -> None:
    k = row_size(scheme, odd=33)
    rows, x = random_rows(scheme, n, k), activations(2, k)
    expected = rounded(x, scheme) @ _native.dequantize(scheme, rows, k).astype(np.float64).T
    assert error(_native.linear(scheme, rows, n, k, x), expected) < TOLERANCE


@pytest.mark.parametrize("scheme", DENSE)
@pytest.mark.parametrize("k", [1, 31, 48, 72, 127, 129])
def test_dense_rows_of_any_size(isa: str, scheme: str, k: int) -> None:
    rows, x = random_rows(scheme, 20, k), activations(7, k)
    expected = rounded(x, scheme) @ _native.dequantize(scheme, rows, k).astype(np.float64).T
    assert error(_native.linear(scheme, rows, 20, k, x), expected) < TOLERANCE


@pytest.mark.parametrize("k", [32, 64, 96, 160])
def test_blocks_that_do_not_fill_a_slab(isa: str, k: int) -> None:
    rows, x = random_rows("Q5_0", 66, k), activations(30, k)
    expected = rounded(x, "Q5_0") @ _native.dequantize("Q5_0", rows, k).astype(np.float64).T
    assert error(_native.linear("Q5_0", rows, 66, k, x), expected) < TOLERANCE


def test_groups_of_zeros_and_of_vanishing_values_give_zero(isa: str) -> None:
    rows = random_rows("Q4_0", 64, 64)
    x = np.zeros((2, 64), np.float32)
    x[1] = 1e-42  # 127 / x would be infinite
    np.testing.assert_array_equal(_native.linear("Q4_0", rows, 64, 64, x), np.zeros((2, 64), np.float32))


@pytest.mark.parametrize("scheme", ["Q5_0", "Q6_K", "BF16", "F32"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_shows_in_its_row_and_nowhere_else(isa: str, scheme: str, value: float) -> None:
    k = row_size(scheme)
    rows, x = random_rows(scheme, 64, k), activations(3, k)
    clean = _native.linear(scheme, rows, 64, k, x)
    x[1, k - 2] = value
    y = _native.linear(scheme, rows, 64, k, x)
    assert not np.isfinite(y[1]).any()
    np.testing.assert_array_equal(y[[0, 2]], clean[[0, 2]])


def test_instruction_sets_agree() -> None:
    """The integers are the same, so only the rounding of float sums may differ."""
    before = _native.isa()
    for scheme in SCHEMES:
        n, k = 64, row_size(scheme)
        rows, x = random_rows(scheme, n, k), activations(5, k)
        results = []
        for name in AVAILABLE:
            _native.set_isa(name)
            results.append(_native.linear(scheme, rows, n, k, x))
        _native.set_isa(before)
        for other in results[1:]:
            assert error(other, results[0].astype(np.float64)) < TOLERANCE, scheme


@pytest.mark.parametrize(
    ("scheme", "bits"),
    [
        ("Q4_0", 4.5),
        ("Q5_0", 5.5),
        ("Q8_0", 8.5),
        ("Q4_K", 4.625),
        ("Q5_K", 5.625),
        ("Q6_K", 6.5625),
        ("BF16", 16),
        ("IQ4_NL", 4.5),
        ("IQ4_XS", 4.3125),
        ("MXFP4", 4.25),
        ("INT4_G32", 5.25),
        ("INT4_G128", 4.3125),
        ("INT8_G32", 9.25),
        ("INT8_G128", 8.3125),
    ],
)
def test_packing_adds_almost_nothing(scheme: str, bits: float) -> None:
    """Bits per weight when packed: what decode reads from memory."""
    assert _native.packed_size_bytes(scheme, 128, 1024) * 8 / (128 * 1024) == bits


def test_an_unknown_scheme_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"scheme 'Q9_9' is not one the kernels read\. Known schemes: F32, F16"):
        _native.dequantize("Q9_9", np.zeros((1, 18), np.uint8), 32)


def test_a_row_that_is_no_whole_number_of_blocks_is_refused() -> None:
    with pytest.raises(ValueError, match="a row of 100 elements is not a whole number of blocks of 32"):
        _native.dequantize("Q4_0", np.zeros((1, 54), np.uint8), 100)


def test_rows_of_the_wrong_shape_are_refused() -> None:
    with pytest.raises(ValueError, match=r"the rows have shape \[2, 17\], 2 rows of 32 elements"):
        _native.linear("Q4_0", np.zeros((2, 17), np.uint8), 2, 32, activations(1, 32))


def test_a_pool_without_threads_is_refused() -> None:
    with pytest.raises(ValueError, match="num_threads=0 must be 1 or more"):
        _native.linear("Q4_0", random_rows("Q4_0", 1, 32), 1, 32, activations(1, 32), None, False, 0)


def test_the_benchmark_times_every_repeat() -> None:
    seconds = _native.linear_bench(
        "Q4_0", random_rows("Q4_0", 64, 64), 64, activations(2, 64), num_copies=3, num_repeats=4
    )
    assert len(seconds) == 4
    assert all(second > 0 for second in seconds)
