"""Tensors of a quantized linear as arrays: views of the mapped file, and integers out of 32-bit words."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pelton.checkpoint.placed_tensor import PlacedTensor

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
    """The tensor's bytes as one row: as mapped, or put in order where the file has them in another."""
    return tensor.flat()


def bytes_of_words(words: Words) -> Bytes:
    """[N, W] words -> [N, 4 * W] bytes, the lowest first."""
    return np.ascontiguousarray(words).view(np.uint8).reshape(len(words), -1)


def unpack_rows(words: Words, bits: int) -> Bytes:
    """[N, W] words, lowest bits first -> [N, W * 32 / bits] integers."""
    stored = bytes_of_words(words)
    if bits == 8:
        return stored
    integers = np.empty((len(words), 2 * stored.shape[1]), np.uint8)
    integers[:, 0::2] = stored & 15
    integers[:, 1::2] = stored >> 4
    return integers


def part_nibbles(pairs: Bytes) -> Bytes:
    """[N, B] with two neighbouring elements in a byte, the first in its low half -> GGUF's order, of the same shape.

    There byte j of 16 holds elements j and j + 16. Eight bytes are one number here: loops over eight are slow in numpy.
    """
    eights = np.ascontiguousarray(pairs).view("<u8").reshape(-1, 2)
    first, second = eights[:, 0], eights[:, 1]
    low, four = np.uint64(0x0F0F0F0F0F0F0F0F), np.uint64(4)
    parted = np.empty(pairs.size, np.uint8)
    parted[0::2] = (first & low | (second & low) << four).view(np.uint8)
    parted[1::2] = (first >> four & low | second & ~low).view(np.uint8)
    return parted.reshape(pairs.shape)
