"""What is done to a tensor on its way from file to plan; every transform of `plan.weight_map`.

Row operations move raw rows and are exact in any scheme. The others look at numbers and take dense tensors only:
checkpoints store what needs them (norms, biases, GPT-2) dense.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pelton.checkpoint.dequantize import dequantize_rows
from pelton.checkpoint.model_spec import ModelSpec
from pelton.checkpoint.weight import Conversion, Tensor
from pelton.errors import CheckpointError
from pelton.plan.weight_map import Transform

ELEMENT: dict[str, np.dtype[Any]] = {
    "F32": np.dtype(np.float32),
    "F16": np.dtype(np.float16),
    "BF16": np.dtype(np.uint16),  # moved, never computed with
}


def transformed(tensor: Tensor, transform: Transform, spec: ModelSpec, layer: int | None) -> Tensor:
    """`tensor` after `transform`; `layer` is the layer it belongs to, None outside of layers."""
    if transform == "none":
        return tensor
    if transform == "plus_one":
        return plus_one(tensor)
    if transform == "transpose":
        return transpose(tensor)
    if transform == "row":
        return Tensor(tensor.name, (1, tensor.shape[-1]), tensor.scheme, tensor.stored)
    assert transform != "experts", "one tensor becomes many: expert_matrices"
    num_heads = spec.num_heads if transform == "rope_rows_q" else spec.num_kv_heads
    assert layer is not None, f"{transform}: {tensor.name} is in no layer"
    rope = spec.layers[layer].rope
    # Converters permute all layers, so a layer without rotary embedding has q and k in one unknown order: any will do.
    return unpair_rows(tensor, num_heads, spec.head_dim if rope is None else rope.rotary_dim)


def plus_one(tensor: Tensor) -> Tensor:
    """w + 1 in float32."""
    check_dense(tensor, "plus_one")
    numbers = dequantize_rows(tensor.scheme, tensor.payload)
    return Tensor(tensor.name, tensor.shape, "F32", (numbers + np.float32(1)).view(np.uint8))


def transpose(tensor: Tensor) -> Tensor:
    """[in, out] as [out, in]."""
    elements = elements_of(tensor, "transpose")
    if elements.ndim != 2 or elements.shape != tensor.shape:
        raise CheckpointError(f"{tensor.name}: has shape {list(tensor.shape)}, a matrix [in, out] is expected.")
    return Tensor(tensor.name, tensor.shape[::-1], tensor.scheme, np.ascontiguousarray(elements.T).view(np.uint8))


def expert_matrices(tensor: Tensor, num_experts: int) -> list[Tensor]:
    """The matrices that `tensor` stacks, one per expert: views of its rows."""
    if len(tensor.shape) != 3 or tensor.shape[0] != num_experts:
        raise CheckpointError(
            f"{tensor.name}: has shape {list(tensor.shape)}, a matrix for each of {num_experts} experts is expected."
        )
    num_rows, stored = tensor.shape[1], tensor.stored
    if isinstance(stored, Conversion) and stored.make_rows is None:
        stored = stored.make()  # once, and not for each expert
    cuts = [(expert * num_rows, (expert + 1) * num_rows) for expert in range(num_experts)]
    return [
        Tensor(
            f"{tensor.name}[{expert}]",
            tensor.shape[1:],
            tensor.scheme,
            stored.rows(begin, end) if isinstance(stored, Conversion) else stored[begin:end],
        )
        for expert, (begin, end) in enumerate(cuts)
    ]


def unpair_rows(tensor: Tensor, num_heads: int, rotary_dim: int) -> Tensor:
    """Rows of each head from neighbouring pairs (2i, 2i + 1) to half-split pairs (i, i + rotary_dim / 2)."""
    return move_rows(tensor, unpaired_order(tensor, num_heads, rotary_dim))


def unpaired_order(tensor: Tensor, num_heads: int, rotary_dim: int) -> npt.NDArray[np.intp]:
    """Which row of neighbouring pairs each row of half-split pairs is."""
    num_rows = tensor.shape[0]
    head_dim, rest = divmod(num_rows, num_heads)
    if rest or rotary_dim > head_dim:
        raise CheckpointError(
            f"{tensor.name}: has {num_rows} rows, which are not {num_heads} heads of {rotary_dim} dimensions or more. "
            "The tensor and the numbers of heads in the metadata belong to different models."
        )
    within = np.concatenate((np.arange(rotary_dim).reshape(-1, 2).T.ravel(), np.arange(rotary_dim, head_dim)))
    return (np.arange(num_heads)[:, None] * head_dim + within).ravel()


def move_rows(tensor: Tensor, order: npt.NDArray[np.intp]) -> Tensor:
    """Row i of the result is row order[i]; exact in any scheme."""
    if len(tensor.shape) == 1:
        moved = elements_of(tensor, "rope_rows").reshape(-1)[order][None, :].view(np.uint8)
    else:
        moved = tensor.payload[order]
    return Tensor(tensor.name, tensor.shape, tensor.scheme, moved)


def elements_of(tensor: Tensor, transform: str) -> npt.NDArray[Any]:
    """The payload seen as elements: [rows, elements of a row]. Raises CheckpointError for quantized schemes."""
    check_dense(tensor, transform)
    return np.ascontiguousarray(tensor.payload).view(ELEMENT[tensor.scheme])


def check_dense(tensor: Tensor, transform: str) -> None:
    """Raise CheckpointError if `tensor` is quantized."""
    if tensor.scheme not in ELEMENT:
        raise CheckpointError(
            f"{tensor.name}: is stored as {tensor.scheme}, but {transform} needs it as one of {', '.join(ELEMENT)}. "
            "Convert the model again and keep this tensor dense."
        )
