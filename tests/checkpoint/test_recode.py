"""The numbers are the same, bit for bit, whatever the bytes: signed zeros, infinities and NaNs included."""

from __future__ import annotations

import numpy as np
import pytest

from pelton.checkpoint.contract import TensorInfo
from pelton.checkpoint.dequantize import dequantize, dequantize_rows
from pelton.checkpoint.recode import TARGETS, held_bytes, recode_rows, recoded
from pelton.checkpoint.scheme import EXPANDED, USABLE, row_bytes
from pelton.checkpoint.weight import Conversion, Tensor

pytestmark = pytest.mark.unit


def test_every_expanded_scheme_becomes_a_usable_one() -> None:
    assert set(TARGETS) == EXPANDED
    assert {target for target, _ in TARGETS.values()} <= USABLE


@pytest.mark.parametrize("scheme", sorted(EXPANDED - {"F64"}))
def test_numbers_are_the_same(scheme: str) -> None:
    shape = (64, row_bytes(scheme, 1024))
    payload = np.random.default_rng(1).integers(0, 256, shape, dtype=np.uint8)
    expected, found = (
        dequantize_rows(scheme, payload),
        dequantize_rows(TARGETS[scheme][0], recode_rows(scheme, payload)),
    )
    same = expected.view(np.uint32) == found.view(np.uint32)
    assert (same | (np.isnan(expected) & np.isnan(found))).all()
    assert np.unique(expected).size > 50


def test_doubles_become_floats() -> None:
    values = np.array([[1.5, -0.0, np.inf]], "<f8")
    assert recode_rows("F64", values.view(np.uint8)).tobytes() == values.astype("<f4").tobytes()


def test_rows_are_made_when_they_are_asked_for_and_cut_as_others() -> None:
    payload = np.random.default_rng(2).integers(0, 256, (6, 66), dtype=np.uint8) & 0xBF
    tensor = Tensor("t", (6, 256), "IQ2_XXS", payload)
    made = recoded(tensor)
    assert (made.scheme, made.shape) == ("INT8_G32", (6, 256))
    assert isinstance(made.stored, Conversion)
    assert made.sources[0] is payload
    assert made.stored.recipe == "IQ2_XXS as INT8_G32"
    np.testing.assert_array_equal(dequantize(made), dequantize(tensor))
    np.testing.assert_array_equal(dequantize(made.rows(2, 5, "x")), dequantize(tensor)[2:5])
    np.testing.assert_array_equal(dequantize(made.rows(2, 5, "x").rows(1, 3, "y")), dequantize(tensor)[3:5])


def test_a_converted_tensor_keeps_its_sources_and_both_recipes() -> None:
    raw = np.random.default_rng(3).integers(0, 256, (2, 36), dtype=np.uint8)
    tensor = Tensor("t", (2, 64), "NVFP4", Conversion((raw,), "turned", lambda: raw[::-1]))
    made = recoded(tensor)
    assert isinstance(made.stored, Conversion)
    assert (made.stored.sources, made.stored.recipe) == ((raw,), "turned as BF16")
    np.testing.assert_array_equal(dequantize(made), dequantize_rows("NVFP4", raw)[::-1])


def test_what_kernels_know_stays() -> None:
    tensor = Tensor("t", (1, 256), "Q4_K", np.zeros((1, 144), np.uint8))
    assert recoded(tensor) is tensor


def test_bytes_that_are_held() -> None:
    infos = [TensorInfo("a", (2, 3, 256), "IQ2_XS", 444), TensorInfo("b", (256,), "TQ2_0", 66)]
    infos += [TensorInfo("c", (2, 256), "Q4_K", 288)]
    assert held_bytes(infos) == 6 * 1024 + 8 * 18 + 288
