"""A weight as a checkpoint stores it: shape, scheme and bytes. Nothing is dequantized here.

A scheme is named as the field names it: dense "F32", "F16", "BF16"; GGUF blocks "Q4_0", "Q4_1", "Q5_0", "Q5_1",
"Q8_0", "Q2_K" ... "Q6_K". Payloads are memory-mapped views wherever the file allows it: rows are contiguous and
each row is `row_bytes` long, so taking, permuting and stacking rows is exact in every scheme.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor of a file: row-major `shape` (the last axis is contiguous) and its raw bytes."""

    name: str  # as in the file, for messages
    shape: tuple[int, ...]
    scheme: str
    payload: npt.NDArray[np.uint8]  # [rows, row_bytes], rows = product of all axes but the last


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
