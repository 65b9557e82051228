"""Linears of AWQ checkpoints, version gemm: W[n, k] = scales[g, n] * (q - zero), g the group of input k.

  qweight  [K, N / 8] words along the channels
  qzeros   [G, N / 8] likewise;  scales [G, N]

The nibbles of a word, lowest first, are its channels 0, 2, 4, 6, 1, 3, 5, 7.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pelton.checkpoint.hf.quantized.arrays import Bytes, Words, array_of
from pelton.checkpoint.hf.quantized.group_rows import Groups
from pelton.checkpoint.hf.quantized.settings import Quantization
from pelton.checkpoint.hf.safetensors import PlacedTensor

MARK = "qweight"
REQUIRED = {"qweight": ("I32",), "qzeros": ("I32",), "scales": ("F16", "BF16", "F32")}
OPTIONAL: dict[str, tuple[str, ...]] = {}

Parts = Mapping[str, PlacedTensor]

_CHANNELS = (0, 2, 4, 6, 1, 3, 5, 7)


def find_shape(parts: Parts, quantization: Quantization) -> tuple[int, int]:
    """[N, K]."""
    row_size, num_words = parts["qweight"].info.shape
    return num_words * 32 // quantization.bits, row_size


def expected_shapes(shape: tuple[int, int], num_groups: int, bits: int) -> dict[str, tuple[int, ...]]:
    """What the other tensors of a linear of this shape must look like."""
    return {"qzeros": (num_groups, shape[0] * bits // 32), "scales": (num_groups, shape[0])}


def make_groups(parts: Parts, quantization: Quantization, shape: tuple[int, int], group_size: int) -> Groups:
    """Reads everything but the integers."""
    words = array_of(parts["qweight"])

    def integers(begin: int, end: int) -> Bytes:
        return _unpack_channels(words[:, begin // 8 : end // 8])

    return Groups(
        bits=quantization.bits,
        row_size=shape[1],
        group_size=group_size,
        scales_NG=array_of(parts["scales"]).T,
        zeros_NG=_unpack_channels(array_of(parts["qzeros"])),
        integers=integers,
    )


def _unpack_channels(words: Words) -> Bytes:
    """[R, W] words -> [8 * W, R] integers."""
    by_channel = np.ascontiguousarray(words.T)
    integers = np.empty((len(by_channel), 8, by_channel.shape[1]), np.uint8)
    for place, channel in enumerate(_CHANNELS):
        integers[:, channel] = (by_channel >> np.uint32(4 * place)) & np.uint32(15)
    return integers.reshape(8 * len(by_channel), -1)
