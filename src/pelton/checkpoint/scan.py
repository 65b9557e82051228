"""What numbers are in a tensor: how many are NaN, infinite and zero, the extremes and the mean. A pass over its bytes.

Knows every scheme. A few MiB of numbers are in memory at a time, whatever the size of the tensor; rows that have to be
put in order first cost the tensor once more. Counts are exact; integers and doubles are taken as doubles, so extremes
above 2^53 are rounded. A complex number counts as two.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pelton.checkpoint.dequantize import dequantize_rows
from pelton.checkpoint.scheme import get_scheme
from pelton.checkpoint.weight import Bytes

CHUNK_ELEMENTS: Final = 1 << 21
_PLAIN: Final = {
    "BOOL": "u1",
    "U8": "u1",
    "U16": "<u2",
    "U32": "<u4",
    "U64": "<u8",
    "I8": "i1",
    "I16": "<i2",
    "I32": "<i4",
    "I64": "<i8",
    "F64": "<f8",
    "C64": "<f4",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """Minimum, maximum and mean are of the finite numbers, NaN where there is none; `absmax` is 0 there."""

    num_nan: int = 0
    num_inf: int = 0
    num_zero: int = 0
    num_finite: int = 0
    minimum: float = math.nan
    maximum: float = math.nan
    mean: float = math.nan

    @property
    def absmax(self) -> float:
        """The largest finite magnitude."""
        return max(abs(self.minimum), abs(self.maximum)) if self.num_finite else 0.0

    @property
    def num_not_finite(self) -> int:
        """NaN and infinities together."""
        return self.num_nan + self.num_inf


def scan_rows(
    scheme: str,
    rows: Bytes,
    *,
    chunk_elements: int = CHUNK_ELEMENTS,
    on_bytes: Callable[[int], None] = lambda num_bytes: None,
) -> Numbers:
    """The numbers of [rows, row_bytes] in any scheme; `on_bytes` is told of the stored bytes that are done."""
    known = get_scheme(scheme)
    # Blocks are cut as if they were rows, so that one long row is not taken at once.
    blocks = np.ascontiguousarray(rows).reshape(-1, known.block_bytes)
    total = Numbers()
    step = max(1, chunk_elements // known.block_size)
    for begin in range(0, len(blocks), step):
        some = blocks[begin : begin + step]
        total = merge(total, _count(_values(scheme, some)))
        on_bytes(some.nbytes)
    return total


def merge(one: Numbers, other: Numbers) -> Numbers:
    """The numbers of both together."""
    if not one.num_finite or not other.num_finite:
        rich = one if one.num_finite else other
        low, high, mean = rich.minimum, rich.maximum, rich.mean
    else:
        low, high = min(one.minimum, other.minimum), max(one.maximum, other.maximum)
        share = other.num_finite / (one.num_finite + other.num_finite)
        mean = one.mean + (other.mean - one.mean) * share
    return Numbers(
        num_nan=one.num_nan + other.num_nan,
        num_inf=one.num_inf + other.num_inf,
        num_zero=one.num_zero + other.num_zero,
        num_finite=one.num_finite + other.num_finite,
        minimum=low,
        maximum=high,
        mean=mean,
    )


def _values(scheme: str, blocks: Bytes) -> npt.NDArray[Any]:
    plain = _PLAIN.get(scheme)
    if plain is None:
        return dequantize_rows(scheme, blocks)
    return np.ascontiguousarray(blocks).view(plain)


def _count(values: npt.NDArray[Any]) -> Numbers:
    num_nan = num_inf = 0
    if values.dtype.kind == "f":
        finite = np.isfinite(values)
        if not finite.all():
            num_nan = int(np.isnan(values).sum())
            num_inf = int(values.size - finite.sum()) - num_nan
            values = values[finite]
    if not values.size:
        return Numbers(num_nan=num_nan, num_inf=num_inf)
    return Numbers(
        num_nan=num_nan,
        num_inf=num_inf,
        num_zero=int(values.size - np.count_nonzero(values)),
        num_finite=values.size,
        minimum=float(values.min()),
        maximum=float(values.max()),
        mean=float(values.mean(dtype=np.float64)),
    )
