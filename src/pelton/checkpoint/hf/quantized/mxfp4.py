"""Linears in MXFP4 as compressed-tensors stores them, and gpt-oss its experts: E2M1 codes, one E8M0 scale for 32.

  weight_packed  [N, K / 2] bytes, the low nibble first;  weight_scale [N, K / 32] exponents

GGUF's MXFP4 has the same codes and exponents in another order, and its kernels read these rows.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pelton.checkpoint.hf.quantized.arrays import Bytes, array_of, part_nibbles
from pelton.checkpoint.hf.quantized.settings import Quantization
from pelton.checkpoint.placed_tensor import PlacedTensor
from pelton.checkpoint.read_tensor import check_exponents

MARK = "weight_packed"
REQUIRED = {"weight_packed": ("U8",), "weight_scale": ("U8", "F8_E8M0")}

Parts = Mapping[str, PlacedTensor]


def find_shape(parts: Parts, quantization: Quantization) -> tuple[int, int]:
    """[N, K]."""
    num_channels, num_bytes = parts["weight_packed"].info.shape
    return num_channels, 2 * num_bytes


def make_rows(codes: Bytes, exponents: Bytes) -> Bytes:
    """[N, K / 2] codes and [N, K / 32] exponents -> [N, row_bytes] of GGUF's blocks, a fresh array."""
    num_channels, num_blocks = exponents.shape
    blocks = np.empty((num_channels, num_blocks, 17), np.uint8)
    blocks[..., 0] = exponents
    blocks[..., 1:] = part_nibbles(codes).reshape(num_channels, num_blocks, 16)
    return blocks.reshape(num_channels, -1)


def read_codes_and_exponents(parts: Parts) -> tuple[Bytes, Bytes]:
    """As mapped. Raises CheckpointError for a scale that is not a number."""
    exponents = array_of(parts["weight_scale"])
    check_exponents(exponents, parts["weight_scale"].info.name)
    return array_of(parts["weight_packed"]), exponents
