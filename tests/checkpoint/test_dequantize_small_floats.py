"""Every code of every small float, against torch where it has the format, and against the specification."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pelton.checkpoint.dequantize import dequantize_rows
from pelton.checkpoint.dequantize_few_levels import E2M1_DOUBLED
from pelton.checkpoint.scheme import SMALL_FLOATS

pytestmark = pytest.mark.unit

OF_TORCH = {
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
    "F8_E4M3FNUZ": torch.float8_e4m3fnuz,
    "F8_E5M2FNUZ": torch.float8_e5m2fnuz,
    "F8_E8M0": torch.float8_e8m0fnu,
}


def pack(codes: np.ndarray, width: int) -> np.ndarray:
    """Codes as bytes, the lowest bits first: an integer that is read from its end."""
    number = sum(int(code) << width * index for index, code in enumerate(codes))
    return np.frombuffer(number.to_bytes(len(codes) * width // 8, "little"), np.uint8).reshape(1, -1)


@pytest.mark.parametrize("scheme", sorted(OF_TORCH))
def test_eight_bits_are_those_of_torch(scheme: str) -> None:
    codes = np.arange(256, dtype=np.uint8)
    expected = torch.from_numpy(codes.copy()).view(OF_TORCH[scheme]).float().numpy()
    actual = dequantize_rows(scheme, codes.reshape(4, 64)).reshape(-1)
    np.testing.assert_array_equal(actual, expected)
    assert (np.signbit(actual) == np.signbit(expected))[~np.isnan(expected)].all()


@pytest.mark.parametrize(("scheme", "largest", "smallest"), [("F6_E2M3", 7.5, 0.125), ("F6_E3M2", 28.0, 0.0625)])
def test_six_bits_are_those_of_the_specification(scheme: str, largest: float, smallest: float) -> None:
    values = dequantize_rows(scheme, pack(np.arange(64), 6))[0]
    positive = values[:32]
    assert (positive[0], positive[1], positive[-1]) == (0.0, smallest, largest)
    assert (np.diff(positive) > 0).all()
    np.testing.assert_array_equal(values[32:], -positive)


def test_four_bits_are_those_of_the_specification() -> None:
    values = dequantize_rows("F4", pack(np.arange(16), 4))[0]
    np.testing.assert_array_equal(values, E2M1_DOUBLED / 2)


def test_every_one_has_a_test_above() -> None:
    assert set(OF_TORCH) | {"F6_E2M3", "F6_E3M2", "F4"} == SMALL_FLOATS
