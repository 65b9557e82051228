"""Pieces of stored blocks as numbers: what the definitions of several schemes have in common."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]


def half(blocks: Bytes, at: int) -> Floats:
    """The float16 at byte `at` of each block: [N, 1]."""
    return np.ascontiguousarray(blocks[:, at : at + 2]).view("<f2").astype(np.float32)


def words(blocks: Bytes, begin: int, end: int, dtype: str) -> npt.NDArray[np.unsignedinteger]:
    """Bytes [begin, end) of each block as little-endian numbers."""
    return np.ascontiguousarray(blocks[:, begin:end]).view(dtype)


def nibbles(packed: Bytes) -> Bytes:
    """[N, B] -> [N, 2B]: all low halves, then all high ones."""
    return np.concatenate((packed & 15, packed >> 4), axis=1)


def nibble_pairs(packed: Bytes) -> Bytes:
    """[N, B] -> [N, 2B]: the low half of each byte, then its high one."""
    return np.stack((packed & 15, packed >> 4), axis=2).reshape(len(packed), -1)


def two_bits(packed: Bytes) -> Bytes:
    """[N, 64] -> [N, 256]: for each half of 32 bytes, four runs of 32, lowest bits first."""
    halves = packed.reshape(-1, 2, 1, 32)
    shifts = np.array([0, 2, 4, 6], dtype=np.uint8).reshape(1, 1, 4, 1)
    return ((halves >> shifts) & np.uint8(3)).reshape(-1, 256)


def bits(packed: Bytes) -> Bytes:
    """[N, B] -> [N, 8B], the lowest bit of each byte first."""
    return np.unpackbits(np.ascontiguousarray(packed), axis=1, bitorder="little")


def spread(scales: Floats, count: int) -> Floats:
    """Each of [N, G] scales for `count` neighbouring elements: [N, G * count]."""
    return np.repeat(scales, count, axis=1)
