"""A weight as a checkpoint stores it: shape, scheme and bytes. Nothing is dequantized here.

A scheme is named as the field names it: dense "F32", "F16", "BF16"; GGUF blocks "Q4_0" ... "Q8_0", "Q2_K" ... "Q6_K",
"IQ4_NL", "IQ4_XS", "MXFP4"; groups "INT4_G128" and so on. Payloads are memory-mapped views wherever the file allows it:
rows are contiguous and each row is `row_bytes` long, so taking, permuting and stacking rows is exact in every scheme.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Conversion:
    """Rows that the file stores in another order. `make` puts them together from `sources`, anew on every call."""

    sources: tuple[Bytes, ...]  # as mapped
    make: Callable[[], Bytes]


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor of a file: row-major `shape` (the last axis is contiguous) and its raw bytes."""

    name: str  # as in the file, for messages
    shape: tuple[int, ...]
    scheme: str
    stored: Bytes | Conversion

    @property
    def payload(self) -> Bytes:
        """[rows, row_bytes], rows = product of all axes but the last. Costs a pass over converted rows: ask once."""
        return self.stored.make() if isinstance(self.stored, Conversion) else self.stored

    @property
    def sources(self) -> tuple[Bytes, ...]:
        """The stored bytes that `payload` is made from, as mapped."""
        return self.stored.sources if isinstance(self.stored, Conversion) else (self.stored,)


@dataclass(frozen=True, slots=True)
class Weight:
    """What a plan calls one weight: one tensor, or several stacked along their first axis (q, k and v of one linear).

    The parts keep their own schemes: a file may store v with more bits than q.
    """

    name: str  # in the plan, for example "layers.3.qkv"
    parts: tuple[Tensor, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        first = self.parts[0].shape
        return (sum(part.shape[0] for part in self.parts), *first[1:])
