"""Schemes that the reference package does not know, or knows in another form; numbers float32 cannot hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pelton.checkpoint.dequantize import dequantize_rows
from pelton.errors import CheckpointError

pytestmark = pytest.mark.unit

TWO = (0x00, 0x40)  # as a float16


def block(size: int, *pieces: Any) -> np.ndarray:
    raw = np.concatenate([np.frombuffer(np.asarray(piece), np.uint8) for piece in pieces])
    assert raw.size == size
    return raw[None, :]


def test_one_bit_is_a_sign() -> None:
    found = dequantize_rows("Q1_0", block(18, np.array(TWO, np.uint8), np.array([0b101] + [0] * 15, np.uint8)))
    assert found[0, :4].tolist() == [2.0, -2.0, 2.0, -2.0]
    assert (found[0, 3:] == -2.0).all()


def test_two_bits_count_from_minus_one_and_neighbours_share_a_byte() -> None:
    found = dequantize_rows("Q2_0", block(18, np.array(TWO, np.uint8), np.array([0b11_10_01_00] * 16, np.uint8)))
    assert found.tolist() == [[-2.0, 0.0, 2.0, 4.0] * 16]


def test_intermediate_results() -> None:
    integers = np.arange(-16, 16, dtype=np.int8)
    found = dequantize_rows("Q8_1", block(36, np.array([2.0, 99.0], "<f2"), integers))
    assert found.tolist() == [(2.0 * integers).tolist()]
    many = np.arange(-128, 128, dtype=np.int8)
    found = dequantize_rows("Q8_K", block(292, np.array([0.5], "<f4"), many, np.full(16, 7, "<i2")))
    assert found.tolist() == [(0.5 * many).tolist()]


def test_the_scale_of_an_nvfp4_tensor_multiplies_each_number() -> None:
    plain = np.random.default_rng(0).integers(0, 256, (50, 36), dtype=np.uint8)
    scale = np.float32(0.7)
    scaled = np.concatenate((np.full((50, 1), scale, "<f4").view(np.uint8), plain), axis=1)
    expected = scale * dequantize_rows("NVFP4", plain)
    np.testing.assert_array_equal(dequantize_rows("NVFP4_SCALED", scaled), expected)


def test_scales_of_nvfp4() -> None:
    codes = np.arange(256, dtype=np.uint8).reshape(64, 4)
    blocks = np.concatenate((codes, np.full((64, 32), 0x22, np.uint8)), axis=1)  # every element is 1
    found = dequantize_rows("NVFP4", blocks)[:, ::16].reshape(256)
    assert found[0x38] == 1.0
    assert found[1] == 2.0**-9
    assert found[0x7E] == 448.0
    assert found[0x7F] == 0.0
    np.testing.assert_array_equal(found[128:255], found[:127])


@pytest.mark.parametrize("dtype", ["i1", "i2", "i4", "i8", "f8"])
def test_whole_numbers_and_doubles(dtype: str) -> None:
    scheme = f"{dtype[0].upper()}{8 * int(dtype[1])}"
    values = np.array([-128, -1, 0, 127], f"<{dtype}")
    assert dequantize_rows(scheme, values.view(np.uint8)[None, :]).tolist() == [[-128.0, -1.0, 0.0, 127.0]]


@pytest.mark.parametrize(
    ("scheme", "value"),
    [
        ("I32", np.array([2**24 + 1], "<i4")),
        ("I64", np.array([2**62 + 1], "<i8")),
        ("I64", np.array([-(2**63)], "<i8")),
        ("F64", np.array([0.1], "<f8")),
        ("F64", np.array([1e300], "<f8")),
    ],
)
def test_nothing_is_rounded(scheme: str, value: np.ndarray) -> None:
    with pytest.raises(CheckpointError, match="more than the 24 bits"):
        dequantize_rows(scheme, value.view(np.uint8)[None, :])
