"""Scales of whole tensors: the tensor `x.scale` multiplies `x.weight`, which NVFP4 cannot do without.

A file may hold one number, or one for each expert of a stack. Models of four-bit activations also have `x.input_scale`,
which says how activations were to be quantized: that is not followed, as with every other format. Both belong to their
weight and are no tensors of their own; a scale of one is none. Source: the loader of llama.cpp.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from pelton.checkpoint.contract import TensorInfo
from pelton.checkpoint.dequantize import dequantize_rows
from pelton.checkpoint.gguf.container import GgufTensor
from pelton.checkpoint.scheme import get_scheme
from pelton.checkpoint.weight import Bytes, Conversion, Tensor
from pelton.errors import CheckpointError

_SCALE, _INPUT_SCALE, _WEIGHT = ".scale", ".input_scale", ".weight"
Scales = npt.NDArray[np.float32]


def find_scales(tensors: Mapping[str, GgufTensor]) -> tuple[dict[str, GgufTensor], frozenset[str]]:
    """The scale of each weight that has one, and the names of all tensors that belong to a weight."""
    scales: dict[str, GgufTensor] = {}
    owned: set[str] = set()
    for name, tensor in tensors.items():
        stem, dot, kind = name.rpartition(".")
        weight = tensors.get(stem + _WEIGHT)
        if weight is None or dot + kind not in (_SCALE, _INPUT_SCALE):
            continue
        numbers = read_scales(tensor, weight.info)
        owned.add(name)
        if dot + kind == _SCALE and (numbers != 1).any():
            scales[weight.info.name] = tensor
    return scales, frozenset(owned)


def read_scales(tensor: GgufTensor, weight: TensorInfo) -> Scales:
    """One number, or one for each matrix of a stack. Raises CheckpointError for anything else."""
    info = tensor.info
    stacks = {(1,), weight.shape[:1]} if len(weight.shape) == 3 else {(1,)}
    if info.scheme != "F32" or info.shape not in stacks:
        allowed = " or ".join(str(list(shape)) for shape in sorted(stacks))
        raise CheckpointError(
            f"{tensor.file.path}: {info.name} is {info.scheme} {list(info.shape)}; the scale of {weight.name} is F32 "
            f"{allowed}."
        )
    numbers: Scales = tensor.file.rows(tensor.offset, 1, info.nbytes).reshape(-1).view("<f4")
    if not np.isfinite(numbers).all():
        raise CheckpointError(f"{tensor.file.path}: {info.name} has a scale that is not a number. Fetch it again.")
    return numbers


def scaled_info(weight: TensorInfo, scale: TensorInfo) -> TensorInfo:
    """The weight with its scale, as what is read of it."""
    return TensorInfo(weight.name, weight.shape, _scheme_of(weight.scheme), weight.nbytes + scale.nbytes)


def _scheme_of(scheme: str) -> str:
    return "NVFP4_SCALED" if scheme == "NVFP4" else "F32"


def scaled(tensor: Tensor, scales: Scales) -> Tensor:
    """`tensor` times its scale: NVFP4 keeps its blocks, each behind the scale; all else becomes float32."""
    assert not isinstance(tensor.stored, Conversion), f"{tensor.name}: tensors of a GGUF file are as stored"
    rows = tensor.stored
    row_scales = np.repeat(scales, len(rows) // len(scales)).astype("<f4")[:, None]
    make = _with_scales if tensor.scheme == "NVFP4" else _multiplied
    recipe = f"times {tensor.name.removesuffix(_WEIGHT)}{_SCALE}"
    sources = (rows, scales.view(np.uint8).reshape(1, -1))
    stored = Conversion(
        sources,
        recipe,
        lambda: make(tensor.scheme, rows, row_scales),
        lambda begin, end: make(tensor.scheme, rows[begin:end], row_scales[begin:end]),
    )
    return Tensor(tensor.name, tensor.shape, _scheme_of(tensor.scheme), stored)


def _with_scales(scheme: str, rows: Bytes, row_scales: Scales) -> Bytes:
    blocks = rows.reshape(len(rows), -1, get_scheme(scheme).block_bytes)
    before = np.broadcast_to(row_scales.view(np.uint8)[:, None, :], (*blocks.shape[:2], 4))
    return np.concatenate((before, blocks), axis=2).reshape(len(rows), -1)


def _multiplied(scheme: str, rows: Bytes, row_scales: Scales) -> Bytes:
    return (dequantize_rows(scheme, rows) * row_scales).astype("<f4").view(np.uint8)
