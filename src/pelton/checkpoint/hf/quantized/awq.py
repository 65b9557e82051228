"""Linears of AWQ checkpoints, version gemm: W[n, k] = scales[g, n] * (q - zero), g the group of input k.

  qweight  [K, N / 8] words along the channels
  qzeros   [G, N / 8] likewise;  scales [G, N]

The nibbles of a word, lowest first, are its channels 0, 2, 4, 6, 1, 3, 5, 7.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pelton.checkpoint.hf.quantized.arrays import Bytes, Words, array_of, bytes_of_words
from pelton.checkpoint.hf.quantized.group_rows import Groups
from pelton.checkpoint.hf.quantized.settings import Quantization
from pelton.checkpoint.placed_tensor import PlacedTensor

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
        return _pair_inputs(words[:, begin // 8 : end // 8])

    return Groups(
        bits=quantization.bits,
        row_size=shape[1],
        group_size=group_size,
        scales_NG=array_of(parts["scales"]).T,
        zeros_NG=_unpack_channels(array_of(parts["qzeros"])),
        integers=integers,
    )


def _pair_inputs(words: Words) -> Bytes:
    """[K, W] words -> [8 * W, K / 2] bytes, each with two neighbouring inputs of a channel."""
    num_words = words.shape[1]
    first = np.ascontiguousarray(bytes_of_words(words[0::2]).T)
    second = np.ascontiguousarray(bytes_of_words(words[1::2]).T)
    pairs = np.empty((num_words, 8, first.shape[1]), np.uint8)
    pairs[:, _CHANNELS[0::2]] = (first & 15 | second << np.uint8(4)).reshape(num_words, 4, -1)
    pairs[:, _CHANNELS[1::2]] = (first >> 4 | second & 0xF0).reshape(num_words, 4, -1)
    return pairs.reshape(8 * num_words, -1)


def _unpack_channels(words: Words) -> Bytes:
    """[R, W] words -> [8 * W, R] integers."""
    by_channel = np.ascontiguousarray(words.T)
    integers = np.empty((len(by_channel), 8, by_channel.shape[1]), np.uint8)
    for place, channel in enumerate(_CHANNELS):
        integers[:, channel] = (by_channel >> np.uint32(4 * place)) & np.uint32(15)
    return integers.reshape(8 * len(by_channel), -1)
