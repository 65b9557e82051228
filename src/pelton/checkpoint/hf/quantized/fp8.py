"""Linears in 8-bit floats: W[n, k] = weight[n, k] * scale, one for the tensor, for a channel, or for a block.

  weight            [N, K] of F8_E4M3
  weight_scale      one number, or [N, 1], or [N]                          (tensor, channel)
  weight_scale_inv  [ceil(N / BN), ceil(K / BK)], multiplied in spite of its name; the size of blocks is the
                    configuration's: blocks at the edges are smaller, so shapes do not tell it      (DeepSeek V3)
  input_scale       how activations were to be quantized; not followed

Rows become float32: the product, rounded once. No scheme with kernels holds such numbers exactly in fewer bits.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from pelton.checkpoint.dequantize import dequantize_rows
from pelton.checkpoint.hf.quantized.arrays import Bytes, array_of, bytes_of
from pelton.checkpoint.hf.quantized.settings import Quantization
from pelton.checkpoint.placed_tensor import PlacedTensor
from pelton.errors import CheckpointError

MARK = "weight"
REQUIRED = {"weight": ("F8_E4M3",)}
_FLOATS = ("F32", "BF16", "F16")
OPTIONAL = {"weight_scale": _FLOATS, "weight_scale_inv": _FLOATS, "input_scale": _FLOATS}

Parts = Mapping[str, PlacedTensor]
Floats = npt.NDArray[np.float32]


def find_shape(parts: Parts, quantization: Quantization) -> tuple[int, int]:
    """[N, K]."""
    num_channels, row_size = parts["weight"].info.shape
    return num_channels, row_size


def read_scales(parts: Parts, quantization: Quantization, shape: tuple[int, int]) -> Floats:
    """[N or 1, K or 1] scales, by blocks: [rows, columns] of them. Raises CheckpointError for what does not fit."""
    name = "weight_scale_inv" if "weight_scale_inv" in parts else "weight_scale"
    where = parts["weight"].info.name
    if name not in parts:
        raise CheckpointError(f"{where}: has 8-bit floats and no scale. The checkpoint is incomplete.")
    if {"weight_scale", "weight_scale_inv"} <= parts.keys():
        raise CheckpointError(f"{where}: has weight_scale and weight_scale_inv; only one can be meant.")
    scales: Floats = array_of(parts[name]).astype(np.float32)
    if not np.isfinite(scales).all():
        raise CheckpointError(f"{where}: has a scale that is not finite. It is damaged; fetch it again.")
    block = quantization.block
    if block is None:
        expected: tuple[tuple[int, ...], ...] = ((), (1,), (1, 1), (shape[0],), (shape[0], 1))
    else:
        expected = ((-(-shape[0] // block[0]), -(-shape[1] // block[1])),)
    if scales.shape not in expected:
        told = "blocks" if block else "tensor or channels"
        raise CheckpointError(
            f"{parts[name].info.name}: has shape {list(scales.shape)}, expected {list(expected[-1])} for the {told} of "
            f"a matrix {list(shape)}. The configuration and the weights do not fit together."
        )
    return scales.reshape(-1, scales.shape[-1] if block else 1)


def make_rows(stored: Bytes, scales: Floats, block: tuple[int, int] | None) -> Bytes:
    """[N, K] bytes and their scales -> [N, 4 * K] bytes of float32, a fresh array."""
    numbers = dequantize_rows("F8_E4M3", stored)
    if block is None:
        return (numbers * scales).view(np.uint8)
    num_rows, row_size = numbers.shape
    wide = np.repeat(scales, block[1], axis=1)[:, :row_size]
    for begin in range(0, num_rows, block[0]):
        numbers[begin : begin + block[0]] *= wide[begin // block[0]]
    return numbers.view(np.uint8)


def read_bytes(parts: Parts, shape: tuple[int, int]) -> Bytes:
    """The stored numbers as mapped: [N, K]."""
    return bytes_of(parts["weight"]).reshape(shape)
