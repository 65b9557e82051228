"""Every scheme against the reference implementation of the gguf package, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from gguf import GGMLQuantizationType, quants

from pelton.checkpoint.dequantize import dequantize, dequantize_rows, row_bytes
from pelton.checkpoint.scheme import GROUPED, READABLE, SCHEMES
from pelton.checkpoint.weight import Tensor
from pelton.errors import CheckpointError

pytestmark = pytest.mark.unit

OURS = GROUPED | {"NVFP4_SCALED"}
NOT_IN_THE_PACKAGE = {"Q1_0", "Q2_0", "Q8_1", "Q8_K", "F64"}
OF_THE_PACKAGE = sorted(READABLE - OURS - NOT_IN_THE_PACKAGE)
FEW_NUMBERS = {"TQ1_0", "TQ2_0"}


def random_blocks(scheme: str, *, rows: int, blocks: int, finite: bool) -> np.ndarray:
    """Bytes of `rows` rows. Random bytes are valid blocks; `finite` keeps float16 scales from infinity and NaN."""
    generator = np.random.default_rng(sum(scheme.encode()))
    payload = generator.integers(0, 256, (rows, blocks * SCHEMES[scheme].block_bytes), dtype=np.uint8)
    if finite:
        payload[:, 1::2] &= 0xBF  # no exponent is all ones, wherever a float may stand
        payload[:, 0::2] &= 0xBF
    return payload


@pytest.mark.parametrize("scheme", OF_THE_PACKAGE)
@pytest.mark.parametrize("finite", [True, False])
def test_values_are_bitwise_those_of_the_reference(scheme: str, finite: bool) -> None:
    payload = random_blocks(scheme, rows=7, blocks=16, finite=finite)
    with np.errstate(all="ignore"):
        expected = quants.dequantize(payload, GGMLQuantizationType[scheme])
    actual = dequantize_rows(scheme, payload)
    assert actual.dtype == np.float32
    same = actual.view(np.uint32) == expected.astype(np.float32).view(np.uint32)
    assert (same | (np.isnan(actual) & np.isnan(expected))).all()
    if finite:
        assert np.isfinite(actual).all()
        assert np.unique(actual).size > 50


def test_every_exponent_of_mxfp4_gives_its_power_of_two() -> None:
    blocks = np.full((255, 17), 0x22, np.uint8)  # the code of 1
    blocks[:, 0] = np.arange(255)
    powers = np.ldexp(1.0, np.arange(255) - 127).astype(np.float32)
    np.testing.assert_array_equal(dequantize_rows("MXFP4", blocks), np.repeat(powers[:, None], 32, axis=1))


@pytest.mark.parametrize("scheme", sorted(GROUPED))
def test_groups_are_worth_the_scale_times_the_distance_from_the_zero_point(scheme: str) -> None:
    bits, size = int(scheme[3]), int(scheme[6:])
    generator = np.random.default_rng(0)
    integers, zeros = generator.integers(0, 1 << bits, (40, size)), generator.integers(0, 1 << bits, (40, 1))
    scales = generator.normal(size=(40, 1)).astype("<f4")
    stored = integers.astype(np.uint8)
    if bits == 4:
        runs = stored.reshape(40, -1, 2, 16)
        stored = (runs[:, :, 0] | runs[:, :, 1] << 4).reshape(40, -1)
    blocks = np.concatenate((scales.view(np.uint8), zeros.astype(np.uint8), stored), axis=1)
    expected = (scales.astype(np.float64) * (integers - zeros)).astype(np.float32)
    np.testing.assert_array_equal(dequantize_rows(scheme, blocks), expected)


@pytest.mark.parametrize("scheme", OF_THE_PACKAGE)
def test_row_bytes_agrees_with_the_reference_sizes(scheme: str) -> None:
    assert row_bytes(scheme, 1024) == quants.quant_shape_to_byte_shape((1024,), GGMLQuantizationType[scheme])[-1]


def test_result_has_the_shape_of_the_tensor_and_its_own_memory() -> None:
    payload = np.arange(48, dtype=np.float32).reshape(6, 8).view(np.uint8)
    values = dequantize(Tensor("t", (2, 3, 8), "F32", payload))
    assert values.shape == (2, 3, 8)
    assert values.flatten().tolist() == list(range(48))
    assert not np.shares_memory(values, payload)


def test_rows_that_do_not_fill_blocks_are_refused() -> None:
    with pytest.raises(CheckpointError, match=r"300 elements .* Q4_K.* 256"):
        row_bytes("Q4_K", 300)


def test_schemes_without_values_are_refused() -> None:
    with pytest.raises(CheckpointError, match="C64 weights have no exact float32 values"):
        dequantize_rows("C64", np.zeros((1, 8), np.uint8))
    with pytest.raises(CheckpointError, match="Did you mean 'Q4_K'"):
        row_bytes("Q4_KM", 256)
