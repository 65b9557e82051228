"""Tensors of a quantized linear as arrays: views of the mapped file, and integers out of 32-bit words."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pelton.checkpoint.hf.safetensors import PlacedTensor

Words = npt.NDArray[np.uint32]
Bytes = npt.NDArray[np.uint8]

_DTYPES = {"I8": "i1", "U8": "u1", "F8_E8M0": "u1", "I32": "<u4", "I64": "<i8", "F16": "<f2", "F32": "<f4"}


def array_of(tensor: PlacedTensor) -> npt.NDArray[Any]:
    """The tensor's numbers, a view; words are unsigned, and bfloat16 becomes a float32 copy."""
    flat = bytes_of(tensor)[0]
    if tensor.info.scheme == "BF16":
        numbers: npt.NDArray[Any] = (flat.view("<u2").astype(np.uint32) << 16).view(np.float32)
    else:
        numbers = flat.view(np.dtype(_DTYPES[tensor.info.scheme]))
    return numbers.reshape(tensor.info.shape)


def bytes_of(tensor: PlacedTensor) -> Bytes:
    """The tensor's bytes as one row, as mapped."""
    return tensor.file.rows(tensor.offset, 1, tensor.info.nbytes)


def unpack_rows(words: Words, bits: int) -> Bytes:
    """[N, W] words, lowest bits first -> [N, W * 32 / bits] integers."""
    stored = np.ascontiguousarray(words).view(np.uint8).reshape(len(words), -1)
    if bits == 8:
        return stored
    integers = np.empty((len(words), 2 * stored.shape[1]), np.uint8)
    integers[:, 0::2] = stored & 15
    integers[:, 1::2] = stored >> 4
    return integers
