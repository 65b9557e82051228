"""The memory of the KV cache: one anonymous mapping, aligned to large pages, checked against what the machine has.

Pages are touched when a block is first written, so an engine that is hardly used takes hardly any memory. Large pages
matter: a decode step reads the whole cache of its requests once, and the walk of 4 KiB page tables is part of that.
"""

from __future__ import annotations

import mmap
import sys
from typing import final

import numpy as np
import numpy.typing as npt

from pelton.errors import ConfigError

LARGE_PAGE_BYTES = 2 << 20


@final
class KvPool:
    """`num_blocks` blocks of `bytes_per_block`. `memory` is aligned to 2 MiB and reads as zeros at first."""

    def __init__(self, num_blocks: int, bytes_per_block: int, available_bytes: int | None = None) -> None:
        self.num_blocks = num_blocks
        self.num_bytes = num_blocks * bytes_per_block
        if available_bytes is not None:
            check_fits(num_blocks, bytes_per_block, available_bytes)
        try:
            mapping = mmap.mmap(-1, self.num_bytes + LARGE_PAGE_BYTES)
        except OSError as error:
            raise ConfigError(
                f"KV cache: the system refuses to map {_format_gib(self.num_bytes)} for {num_blocks} blocks ({error}). "
                "Lower the KV memory or the context length."
            ) from error
        if sys.platform == "linux":
            mapping.madvise(mmap.MADV_HUGEPAGE)
        whole: npt.NDArray[np.uint8] = np.frombuffer(mapping, np.uint8)
        first = -whole.ctypes.data % LARGE_PAGE_BYTES
        self.memory: npt.NDArray[np.uint8] = whole[first : first + self.num_bytes]  # keeps the mapping alive


def check_fits(num_blocks: int, bytes_per_block: int, available_bytes: int) -> None:
    """Raise ConfigError if the cache is larger than the memory that is free."""
    num_bytes = num_blocks * bytes_per_block
    if num_bytes > available_bytes:
        raise ConfigError(
            f"KV cache: {num_blocks} blocks need {_format_gib(num_bytes)} and {_format_gib(available_bytes)} are free. "
            f"Lower the KV memory or the context length: at most {available_bytes // bytes_per_block} blocks fit."
        )


def _format_gib(num_bytes: int) -> str:
    return f"{num_bytes / 2**30:.2f} GiB"
