"""Advice to the system about the pages of a mapped checkpoint: which are wanted soon, and which no longer.

Pages whose numbers have been packed are given back at once, so that no weight is held twice; those of the next weights
are read while the present one is packed. Runs at load. Only advice: the bytes stay readable whatever it says.
"""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]


def find_mapping(array: npt.NDArray[Any]) -> mmap.mmap | None:
    """The mapping that holds the bytes of `array`, or None if they are ordinary memory."""
    owner: Any = array
    while isinstance(owner, np.ndarray):
        owner = owner.base
    if isinstance(owner, memoryview):
        owner = owner.obj
    return owner if isinstance(owner, mmap.mmap) else None


def release_pages(payload: Bytes) -> int:
    """Drop the whole pages under `payload`; the number of bytes dropped, 0 if it is not mapped."""
    mapping = find_mapping(payload)
    if mapping is None or payload.size == 0:
        return 0
    begin, end = span(mapping, payload)
    begin = -(-begin // mmap.PAGESIZE) * mmap.PAGESIZE
    end = end // mmap.PAGESIZE * mmap.PAGESIZE
    if end <= begin:
        return 0
    mapping.madvise(mmap.MADV_DONTNEED, begin, end - begin)
    return end - begin


def read_ahead(payload: Bytes) -> int:
    """Start reading all pages under `payload` and do not wait; the number of bytes asked for, 0 if it is not mapped."""
    mapping = find_mapping(payload)
    if mapping is None or payload.size == 0:
        return 0
    begin, end = span(mapping, payload)
    begin = begin // mmap.PAGESIZE * mmap.PAGESIZE
    end = -(-end // mmap.PAGESIZE) * mmap.PAGESIZE
    mapping.madvise(mmap.MADV_WILLNEED, begin, min(end, len(mapping)) - begin)
    return end - begin


def span(mapping: mmap.mmap, payload: Bytes) -> tuple[int, int]:
    """Where `payload` begins and ends in `mapping`, in bytes."""
    begin = payload.ctypes.data - np.frombuffer(mapping, np.uint8).ctypes.data
    return begin, begin + payload.nbytes
