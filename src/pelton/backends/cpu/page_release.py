"""Gives the pages of a mapped checkpoint back once their numbers have been packed, so that no weight is held twice.

Runs at load. Only advice: the pages are read from the file again if somebody looks at them.
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
    offset = payload.ctypes.data - np.frombuffer(mapping, np.uint8).ctypes.data
    begin = -(-offset // mmap.PAGESIZE) * mmap.PAGESIZE
    end = (offset + payload.nbytes) // mmap.PAGESIZE * mmap.PAGESIZE
    if end <= begin:
        return 0
    mapping.madvise(mmap.MADV_DONTNEED, begin, end - begin)
    return end - begin
