"""Linears of GPTQ checkpoints: W[n, k] = scales[g, n] * (q - zero), g the group of input k.

  qweight  [K * bits / 32, N] words along the inputs, lowest bits first
  qzeros   [G, N * bits / 32] words along the channels; version 1 stores zero - 1, version 2 the zero point itself
  scales   [G, N];  g_idx [K], optional: the group of each input

Version 1 with all bits of a zero point set stands for 2^bits in some programs and for 0 in others, so it is refused;
so are groups that are not runs of neighbouring inputs (desc_act).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pelton.checkpoint.hf.quantized.arrays import Bytes, array_of, bytes_of_words, unpack_rows
from pelton.checkpoint.hf.quantized.group_rows import Groups
from pelton.checkpoint.hf.quantized.settings import Quantization
from pelton.checkpoint.placed_tensor import PlacedTensor
from pelton.errors import CheckpointError

MARK = "qweight"
REQUIRED = {"qweight": ("I32",), "qzeros": ("I32",), "scales": ("F16", "BF16", "F32")}
OPTIONAL = {"g_idx": ("I32",)}

Parts = Mapping[str, PlacedTensor]


def find_shape(parts: Parts, quantization: Quantization) -> tuple[int, int]:
    """[N, K]."""
    stored = parts["qweight"].info
    num_words, num_channels = stored.shape
    if num_channels * quantization.bits % 32:
        raise CheckpointError(
            f"{stored.name}: has {num_channels} channels, whose zero points of {quantization.bits} bits do not fill "
            "words. The checkpoint is damaged."
        )
    return num_channels, num_words * 32 // quantization.bits


def expected_shapes(shape: tuple[int, int], num_groups: int, bits: int) -> dict[str, tuple[int, ...]]:
    """What the other tensors of a linear of this shape must look like."""
    num_channels, row_size = shape
    zeros = (num_groups, num_channels * bits // 32)
    return {"qzeros": zeros, "scales": (num_groups, num_channels), "g_idx": (row_size,)}


def make_groups(parts: Parts, quantization: Quantization, shape: tuple[int, int], group_size: int) -> Groups:
    """Reads everything but the integers. Raises CheckpointError for zero points and groups that cannot be read."""
    bits = quantization.bits
    if "g_idx" in parts:
        _check_groups(parts["g_idx"], group_size)
    elif quantization.is_reordered:
        raise CheckpointError(
            f"{parts['qweight'].info.name}: has no g_idx beside it, and the configuration says desc_act=true. "
            "The checkpoint is incomplete."
        )
    stored = unpack_rows(array_of(parts["qzeros"]), bits)
    if quantization.zero_offset and (stored == (1 << bits) - 1).any():
        raise CheckpointError(
            f"{parts['qzeros'].info.name}: has a zero point with all bits set, which programs read in two ways. "
            "Convert the checkpoint to the format 'gptq_v2'."
        )
    words = array_of(parts["qweight"])

    def integers(begin: int, end: int) -> Bytes:
        return bytes_of_words(words[:, begin:end].T)

    return Groups(
        bits=bits,
        row_size=shape[1],
        group_size=group_size,
        scales_NG=array_of(parts["scales"]).T,
        zeros_NG=(stored + np.uint8(quantization.zero_offset)).T,
        integers=integers,
    )


def _check_groups(group_of_input: PlacedTensor, group_size: int) -> None:
    groups = array_of(group_of_input)
    if not np.array_equal(groups, np.arange(len(groups)) // group_size):
        raise CheckpointError(
            f"{group_of_input.info.name}: the inputs are grouped in the order of their activations (desc_act), which "
            "cannot be computed with. Use a checkpoint quantized with desc_act=false, or a GGUF file."
        )
