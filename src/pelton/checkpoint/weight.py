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
    """Rows that the file stores in another order or form. `make` makes them from `sources`, anew on every call.

    Equal sources and equal recipes give equal rows. Where rows can be made alone, `make_rows` makes [begin, end).
    """

    sources: tuple[Bytes, ...]  # as mapped
    recipe: str
    make: Callable[[], Bytes]
    make_rows: Callable[[int, int], Bytes] | None = None

    def rows(self, begin: int, end: int) -> Conversion:
        """Rows [begin, end), unmade."""
        make, make_rows, recipe = self.make, self.make_rows, f"{self.recipe}[{begin}:{end}]"
        if make_rows is None:
            return Conversion(self.sources, recipe, lambda: make()[begin:end])
        return Conversion(
            self.sources,
            recipe,
            lambda: make_rows(begin, end),
            lambda first, last: make_rows(begin + first, begin + last),
        )


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

    def rows(self, begin: int, end: int, what: str) -> Tensor:
        """Rows [begin, end) of a matrix, called `what` in messages. Converted ones stay unmade."""
        shape, stored = (end - begin, *self.shape[1:]), self.stored
        if not isinstance(stored, Conversion):
            return Tensor(f"{self.name} ({what})", shape, self.scheme, stored[begin:end])
        return Tensor(f"{self.name} ({what})", shape, self.scheme, stored.rows(begin, end))

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

    def pieces(self, num_pieces: int) -> list[Weight]:
        """The matrix cut into `num_pieces` with equally many rows: views of the same bytes, named "experts[3]"."""
        num_rows, rest = divmod(self.shape[0], num_pieces)
        assert rest == 0, f"{self.name}: {self.shape[0]} rows are not {num_pieces} equal pieces"
        cuts: list[list[Tensor]] = [[] for _ in range(num_pieces)]
        first = 0  # of the part's rows in the whole
        for part in self.parts:
            end = first + part.shape[0]
            for piece in range(first // num_rows, -(-end // num_rows)):
                cut = max(first, piece * num_rows) - first, min(end, (piece + 1) * num_rows) - first
                is_whole = cut == (0, part.shape[0])
                cuts[piece].append(part if is_whole else part.rows(*cut, f"piece {piece}"))
            first = end
        return [Weight(f"{self.name}[{index}]", tuple(parts)) for index, parts in enumerate(cuts)]

    @property
    def shape(self) -> tuple[int, ...]:
        first = self.parts[0].shape
        return (sum(part.shape[0] for part in self.parts), *first[1:])
