"""Integers, zero points and scales of a linear -> rows of a group scheme. Nothing is rounded.

A block of a row is a float32 scale, a zero point of one byte, and 32 or 128 integers. float32 holds every float16 and
bfloat16, and every integer and zero point of 4 and 8 bits is a byte, so the values are those of the checkpoint:
scale * (q - zero). A group longer than a block is repeated. Costs one pass over the integers, some thousand channels
at a time, so that what it needs beside the result stays small.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pelton.checkpoint.hf.quantized.arrays import part_nibbles
from pelton.checkpoint.scheme import row_bytes

Bytes = npt.NDArray[np.uint8]

_CHUNK_ELEMENTS = 1 << 22
_WORD_CHANNELS = 8  # chunks begin at whole words of AWQ


@dataclass(frozen=True, slots=True, kw_only=True)
class Groups:
    """A linear of N channels and K inputs. `integers(begin, end)` gives q of channels [begin, end) in order.

    They are [channels, K * bits / 8] bytes; of 4 bits there are two in a byte, the first in its low half.
    """

    bits: int
    row_size: int
    group_size: int
    scales_NG: npt.NDArray[Any]  # any float dtype of numpy
    zeros_NG: Bytes
    integers: Callable[[int, int], Bytes]


def group_scheme(bits: int, row_size: int, group_size: int) -> str | None:
    """The scheme that holds groups of this size; None if rows are not whole blocks of any."""
    for block_size in (128, 32):
        if row_size % block_size == 0 and group_size % block_size == 0:
            return f"INT{bits}_G{block_size}"
    return None


def make_rows(groups: Groups, scheme: str) -> Bytes:
    """[N, row_bytes] of `scheme`, a fresh array."""
    num_channels = len(groups.scales_NG)
    block_size = int(scheme.partition("_G")[2])
    rows = np.empty((num_channels, row_bytes(scheme, groups.row_size)), np.uint8)
    num_blocks = groups.row_size // block_size
    blocks = rows.reshape(num_channels, num_blocks, -1)
    group_of_block = np.arange(num_blocks) * block_size // groups.group_size
    step = max(_CHUNK_ELEMENTS // groups.row_size // _WORD_CHANNELS, 1) * _WORD_CHANNELS
    for begin in range(0, num_channels, step):
        part = slice(begin, min(begin + step, num_channels))
        scales = np.ascontiguousarray(groups.scales_NG[part][:, group_of_block], "<f4")
        blocks[part, :, :4] = scales.view(np.uint8).reshape(*scales.shape, 4)
        blocks[part, :, 4] = groups.zeros_NG[part][:, group_of_block]
        integers = groups.integers(part.start, part.stop)
        ordered = part_nibbles(integers) if groups.bits == 4 else integers
        blocks[part, :, 5:] = ordered.reshape(len(ordered), num_blocks, -1)
    return rows
