"""Blocks are at least as near as the reference's, within what the scheme can do, and stay what they are."""

from __future__ import annotations

import gguf
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pelton.checkpoint.dequantize import dequantize_rows
from pelton.checkpoint.quantize_blocks import MADE, quantize_rows
from pelton.errors import CheckpointError

pytestmark = pytest.mark.unit
# Root mean square error relative to that of normal numbers: what each scheme reaches, and a little more.
REACHED = {"Q8_0": 0.006, "Q4_0": 0.088, "Q4_K": 0.075, "Q6_K": 0.019}


def normal(seed: int, rows: int = 64, columns: int = 512) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(rows, columns)).astype(np.float32)


def error(scheme: str, x: np.ndarray, blocks: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(dequantize_rows(scheme, blocks) - x)) / np.mean(np.square(x))))


@pytest.mark.parametrize("scheme", MADE)
def test_errors_are_as_small_as_they_can_be(scheme: str) -> None:
    x = normal(1)
    assert error(scheme, x, quantize_rows(scheme, x)) < REACHED[scheme]


@pytest.mark.parametrize("scheme", ["Q8_0", "Q4_0"])
def test_errors_are_no_larger_than_those_of_the_reference(scheme: str) -> None:
    x = normal(2) * np.exp(normal(3))
    theirs = gguf.quants.quantize(x, gguf.GGMLQuantizationType[scheme])
    ours = quantize_rows(scheme, x)
    assert error(scheme, x, ours) <= error(scheme, x, theirs)
    if scheme == "Q8_0":
        assert np.array_equal(ours, theirs)


@pytest.mark.parametrize("scheme", MADE)
def test_what_is_quantized_stays(scheme: str) -> None:
    once = dequantize_rows(scheme, quantize_rows(scheme, normal(4)))
    twice = dequantize_rows(scheme, quantize_rows(scheme, once))
    assert np.sqrt(np.mean(np.square(twice - once)) / np.mean(np.square(once))) < 1e-3


@pytest.mark.parametrize("scheme", MADE)
@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 10**6), power=st.integers(-1, 4))
def test_no_number_is_far_off(scheme: str, seed: int, power: int) -> None:
    x = normal(seed, 2, 256) * np.float32(10.0**power)
    off = np.abs(dequantize_rows(scheme, quantize_rows(scheme, x)) - x)
    spread = x.reshape(2, -1, 256).max(-1) - x.reshape(2, -1, 256).min(-1)
    assert (
        off.reshape(2, -1, 256) <= spread[..., None] / {"Q8_0": 200, "Q4_0": 6, "Q4_K": 8, "Q6_K": 20}[scheme]
    ).all()


@pytest.mark.parametrize("scheme", MADE)
def test_zeros_and_constants(scheme: str) -> None:
    assert (dequantize_rows(scheme, quantize_rows(scheme, np.zeros((2, 256), np.float32))) == 0).all()
    for value in (1.5, -3.0):
        x = np.full((1, 256), value, np.float32)
        np.testing.assert_allclose(dequantize_rows(scheme, quantize_rows(scheme, x)), x, rtol=1e-2)


@pytest.mark.parametrize("scheme", ["Q4_0", "Q4_K", "Q6_K"])
def test_what_counts_more_is_nearer(scheme: str) -> None:
    x = normal(5)
    importance = np.where(np.arange(512) % 4 == 0, 100.0, 1.0).astype(np.float32)
    plain, weighted = (dequantize_rows(scheme, quantize_rows(scheme, x, each)) for each in (None, importance))
    errors = [float(np.mean(importance * np.square(made - x))) for made in (plain, weighted)]
    assert errors[1] < errors[0]


@pytest.mark.parametrize("scheme", MADE)
def test_equal_input_gives_equal_bytes_however_many_rows(scheme: str) -> None:
    x = normal(6, 70, 256)
    whole = quantize_rows(scheme, x)
    assert np.array_equal(whole[33:34], quantize_rows(scheme, x[33:34]))


def test_what_cannot_be_made_is_refused() -> None:
    with pytest.raises(CheckpointError, match="Q5_K blocks cannot be made"):
        quantize_rows("Q5_K", normal(0))
    with pytest.raises(CheckpointError, match="not finite"):
        quantize_rows("Q8_0", np.full((1, 32), np.nan, np.float32))
    with pytest.raises(CheckpointError, match="multiple of 256"):
        quantize_rows("Q4_K", normal(0, 1, 32))
