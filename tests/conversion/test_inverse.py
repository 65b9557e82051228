"""What a transform does to a tensor is undone, byte for byte."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.conversion.llama import LLAMA

from pelton.checkpoint.weight import Tensor
from pelton.conversion.inverse import minus_one, shape_after, shape_before, untransformed
from pelton.loading.transform import transformed

pytestmark = pytest.mark.unit


def make(shape: tuple[int, ...], scheme: str = "F32", seed: int = 0) -> Tensor:
    size = {"F32": 4, "BF16": 2, "Q8_0": 0}[scheme]
    columns = shape[-1] // 32 * 34 if scheme == "Q8_0" else shape[-1] * size
    rows = int(np.prod(shape[:-1], dtype=np.int64))
    return Tensor("w", shape, scheme, np.random.default_rng(seed).integers(0, 128, (rows, columns), np.uint8))


@pytest.mark.parametrize("scheme", ["F32", "BF16", "Q8_0"])
@pytest.mark.parametrize("transform", ["none", "rope_rows_q", "rope_rows_k"])
def test_rows_come_back_in_every_scheme(transform: Any, scheme: str) -> None:
    num_heads = LLAMA.num_heads if transform == "rope_rows_q" else LLAMA.num_kv_heads
    tensor = make((num_heads * LLAMA.head_dim, 64), scheme)
    moved = transformed(tensor, transform, LLAMA, 0)
    assert np.array_equal(untransformed(moved, transform, LLAMA, 0).payload, tensor.payload)
    assert transform == "none" or not np.array_equal(moved.payload, tensor.payload)


def test_vectors_are_moved_too() -> None:
    bias = make((LLAMA.num_heads * LLAMA.head_dim,), "BF16")
    moved = transformed(bias, "rope_rows_q", LLAMA, 0)
    assert np.array_equal(untransformed(moved, "rope_rows_q", LLAMA, 0).payload, bias.payload)


@given(partial=st.sampled_from([0.25, 0.5, 1.0]))
def test_only_what_turns_is_moved(partial: float) -> None:
    rope = LLAMA.layers[0].rope
    assert rope is not None
    layer = replace(LLAMA.layers[0], rope=replace(rope, rotary_dim=int(LLAMA.head_dim * partial)))
    spec = replace(LLAMA, layers=(layer,) * LLAMA.num_layers)
    tensor = make((spec.num_heads * spec.head_dim, 8))
    moved = transformed(tensor, "rope_rows_q", spec, 0)
    assert np.array_equal(untransformed(moved, "rope_rows_q", spec, 0).payload, tensor.payload)


@pytest.mark.parametrize(("transform", "shape"), [("transpose", (3, 5)), ("row", (7,)), ("none", (3, 5))])
def test_shapes_are_known_without_reading(transform: Any, shape: tuple[int, ...]) -> None:
    moved = transformed(make(shape), transform, LLAMA, None)
    assert moved.shape == shape_after(shape, transform)
    back = untransformed(moved, transform, LLAMA, None)
    assert back.shape == shape == shape_before(moved.shape, transform)
    assert np.array_equal(back.payload.reshape(-1), make(shape).payload.reshape(-1))


def test_one_less_is_what_one_more_was() -> None:
    numbers = np.array([[0.5, -0.25, 1.0, 2.0**-20]], np.float32)
    tensor = Tensor("w", (4,), "F32", numbers.view(np.uint8))
    more = transformed(tensor, "plus_one", LLAMA, 0)
    assert np.array_equal(minus_one(more).payload, tensor.payload)
