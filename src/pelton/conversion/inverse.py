"""The way back from the plan to a file: what `loading.transform` does to a tensor, undone.

Row operations are exact in any scheme. The difference from one is taken in float32, where adding it may have rounded;
whoever converts keeps the original bytes of the few tensors for which it did.
"""

from __future__ import annotations

import numpy as np

from pelton.checkpoint.dequantize import dequantize_rows
from pelton.checkpoint.model_spec import ModelSpec
from pelton.checkpoint.weight import Tensor
from pelton.loading.transform import check_dense, move_rows, transpose, unpaired_order
from pelton.plan.weight_map import Transform


def untransformed(tensor: Tensor, transform: Transform, spec: ModelSpec, layer: int | None) -> Tensor:
    """The tensor whose `transformed` is `tensor`."""
    if transform == "none":
        return tensor
    if transform == "plus_one":
        return minus_one(tensor)
    if transform == "transpose":
        return transpose(tensor)
    if transform == "row":
        return Tensor(tensor.name, tensor.shape[1:], tensor.scheme, tensor.stored)
    assert transform != "experts", "many tensors become one: pieces.stack"
    assert layer is not None, f"{transform}: {tensor.name} is in no layer"
    num_heads = spec.num_heads if transform == "rope_rows_q" else spec.num_kv_heads
    rope = spec.layers[layer].rope
    order = unpaired_order(tensor, num_heads, spec.head_dim if rope is None else rope.rotary_dim)
    return move_rows(tensor, np.argsort(order))


def minus_one(tensor: Tensor) -> Tensor:
    """w - 1 in float32."""
    check_dense(tensor, "minus_one")
    numbers = dequantize_rows(tensor.scheme, tensor.payload)
    return Tensor(tensor.name, tensor.shape, "F32", (numbers - np.float32(1)).view(np.uint8))


def shape_after(shape: tuple[int, ...], transform: Transform) -> tuple[int, ...]:
    """The shape of `transformed`, from that of its tensor."""
    if transform == "transpose":
        return shape[::-1]
    return (1, shape[-1]) if transform == "row" else shape


def shape_before(shape: tuple[int, ...], transform: Transform) -> tuple[int, ...]:
    """The shape of `untransformed`."""
    if transform == "transpose":
        return shape[::-1]
    return shape[1:] if transform == "row" else shape
