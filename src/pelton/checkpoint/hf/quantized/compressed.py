"""Linears of compressed-tensors checkpoints: W[n, k] = weight_scale[n, g] * (q - zero), g the group of input k.

  pack-quantized  weight_packed [N, K * bits / 32] words, lowest bits first, each q + 2^(bits - 1); weight_shape [N, K];
                  weight_zero_point words along the channels [N * bits / 32, G], likewise raised, or signed bytes [N, G]
  int-quantized   weight [N, K] signed bytes; weight_zero_point signed bytes
  both            weight_scale [N, G], or one number for all; weight_g_idx, optional: the group of each input

Signed integers and their zero points are raised alike, by half of their range, which changes no difference.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pelton.checkpoint.hf.quantized.arrays import Bytes, array_of, bytes_of, bytes_of_words, unpack_rows
from pelton.checkpoint.hf.quantized.group_rows import Groups
from pelton.checkpoint.hf.quantized.settings import Quantization
from pelton.checkpoint.placed_tensor import PlacedTensor
from pelton.errors import CheckpointError

PACKED_MARK, INTEGERS_MARK = "weight_packed", "weight"
_FLOATS = ("F16", "BF16", "F32")
PACKED_REQUIRED = {"weight_packed": ("I32",), "weight_scale": _FLOATS, "weight_shape": ("I64", "I32")}
PACKED_OPTIONAL = {"weight_zero_point": ("I32", "I8"), "weight_g_idx": ("I32",)}
INTEGERS_REQUIRED = {"weight": ("I8",), "weight_scale": _FLOATS}
INTEGERS_OPTIONAL = {"weight_zero_point": ("I8",)}

Parts = Mapping[str, PlacedTensor]


def find_packed_shape(parts: Parts, quantization: Quantization) -> tuple[int, int]:
    """[N, K], as weight_shape says; it must fill the words."""
    named = array_of(parts["weight_shape"]).ravel()[:3].tolist()
    stored = parts["weight_packed"].info
    if len(named) != 2 or (named[0], named[1] * quantization.bits) != (stored.shape[0], stored.shape[1] * 32):
        raise CheckpointError(
            f"{stored.name}: weight_shape says {named}, and {list(stored.shape)} words of {quantization.bits} bits "
            "are another number of elements."
        )
    return named[0], named[1]


def find_integers_shape(parts: Parts, quantization: Quantization) -> tuple[int, int]:
    """[N, K]."""
    num_channels, row_size = parts["weight"].info.shape
    return num_channels, row_size


def make_packed_groups(parts: Parts, quantization: Quantization, shape: tuple[int, int], group_size: int) -> Groups:
    """Reads everything but the integers. Raises CheckpointError for scales and zero points of another shape."""
    words = array_of(parts["weight_packed"])
    return Groups(
        bits=quantization.bits,
        row_size=shape[1],
        group_size=group_size,
        scales_NG=_read_scales(parts, shape, group_size),
        zeros_NG=_read_zeros(parts, quantization, quantization.bits, shape, group_size),
        integers=lambda begin, end: bytes_of_words(words[begin:end]),
    )


def make_integer_groups(parts: Parts, quantization: Quantization, shape: tuple[int, int], group_size: int) -> Groups:
    """As make_packed_groups; fewer than 8 bits are stored as bytes and stay bytes."""
    integers = array_of(parts["weight"]).view(np.uint8)
    return Groups(
        bits=8,
        row_size=shape[1],
        group_size=group_size,
        scales_NG=_read_scales(parts, shape, group_size),
        zeros_NG=_read_zeros(parts, quantization, 8, shape, group_size),
        integers=lambda begin, end: integers[begin:end] ^ np.uint8(128),
    )


def _read_scales(parts: Parts, shape: tuple[int, int], group_size: int) -> np.ndarray[tuple[int, ...], np.dtype]:
    num_channels, row_size = shape
    num_groups = -(-row_size // group_size)
    _check_order(parts, row_size, group_size)
    tensor = parts["weight_scale"]
    scales = array_of(tensor)
    if scales.size == 1 and num_groups == 1:
        return np.broadcast_to(scales.reshape(1, 1), (num_channels, 1))
    if scales.size != num_channels * num_groups or scales.shape[0] != num_channels:
        raise CheckpointError(
            f"{tensor.info.name}: has shape {list(scales.shape)}, and {list(shape)} weights in groups of {group_size} "
            f"need [{num_channels}, {num_groups}]."
        )
    return scales.reshape(num_channels, num_groups)


def _read_zeros(parts: Parts, quantization: Quantization, bits: int, shape: tuple[int, int], group_size: int) -> Bytes:
    num_channels, num_groups = shape[0], -(-shape[1] // group_size)
    middle = np.uint8(1 << (bits - 1))
    if "weight_zero_point" not in parts:
        if not quantization.is_symmetric:
            raise CheckpointError(
                f"{parts['weight_scale'].info.name}: has no weight_zero_point beside it, and the configuration says "
                "that the integers are not symmetric. The checkpoint is incomplete."
            )
        return np.full((num_channels, num_groups), middle)
    tensor = parts["weight_zero_point"]
    if tensor.info.scheme == "I32" and tensor.info.shape == (-(-num_channels * bits // 32), num_groups):
        return unpack_rows(array_of(tensor).T, bits).T[:num_channels]
    zeros = bytes_of(tensor).ravel() + middle
    if zeros.size == 1 and num_groups == 1:
        return np.broadcast_to(zeros.reshape(1, 1), (num_channels, 1))
    if tensor.info.scheme == "I32" or zeros.size != num_channels * num_groups:
        raise CheckpointError(
            f"{tensor.info.name}: has shape {list(tensor.info.shape)}; expected one zero point for each of "
            f"[{num_channels}, {num_groups}] groups."
        )
    return zeros.reshape(num_channels, num_groups)


def _check_order(parts: Parts, row_size: int, group_size: int) -> None:
    if "weight_g_idx" not in parts:
        return
    if not np.array_equal(array_of(parts["weight_g_idx"]), np.arange(row_size) // group_size):
        raise CheckpointError(
            f"{parts['weight_g_idx'].info.name}: the inputs are grouped in the order of their activations (actorder), "
            "which cannot be computed with. Use a checkpoint quantized without it, or a GGUF file."
        )
