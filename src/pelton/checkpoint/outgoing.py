"""A tensor on its way into a file: its place is known before its bytes are made, so that files are written in one pass.

Writers of every format take a sequence of these, lay the file out from shapes and schemes alone, and then ask for the
bytes of one after the other: at most one tensor is in memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from pelton.checkpoint.scheme import row_bytes
from pelton.checkpoint.weight import Bytes, Tensor


@dataclass(frozen=True, slots=True)
class Outgoing:
    """Row-major `shape` (the last axis is contiguous). `make` gives [rows, row_bytes], equal bytes on every call."""

    name: str  # in the target
    shape: tuple[int, ...]
    scheme: str
    make: Callable[[], Bytes]

    @property
    def nbytes(self) -> int:
        """Bytes in the file, without padding."""
        return math.prod(self.shape[:-1]) * row_bytes(self.scheme, self.shape[-1] if self.shape else 1)


def outgoing(name: str, tensor: Tensor) -> Outgoing:
    """`tensor` as it is, under another name."""
    return Outgoing(name, tensor.shape, tensor.scheme, lambda: tensor.payload)
