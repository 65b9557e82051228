"""Where each intermediate value lives: offsets into one static arena, shared by values that are never alive together.

The program is a list of native ops. Between two barriers threads may be at different ops, so time is counted in
segments: a buffer's memory is free for another only from the segment after its last use. Also decides where barriers
are: none is needed between ops that give every thread the same rows.

Runs once, at load. O(buffers^2), a few hundred of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

ALIGNMENT_BYTES = 4096

# How an op shares its work out: the same rows for a thread each time, of tokens or of rows with logits; or any.
Sharing = Literal["T", "S", "any"]


@dataclass(frozen=True, slots=True, eq=False)
class Buffer:
    """Memory of one or more values. Two buffers are the same only if they are one object."""

    size_bytes: int


@dataclass(frozen=True, slots=True)
class View:
    """`width` floats of every row of a buffer whose rows are `stride` floats apart."""

    buffer: Buffer
    first: int
    width: int
    stride: int

    def overlaps(self, other: View) -> bool:
        """Whether writing one changes the other."""
        same = self.buffer is other.buffer
        return same and self.first < other.first + other.width and other.first < self.first + self.width


Place = Callable[[View], tuple[int, int]]  # (offset in bytes, floats from row to row)
PlaceBuffer = Callable[[Buffer], int]


@dataclass(frozen=True, slots=True)
class NativeOp:
    """One op of the program before its memory is known. `emit` adds it to the native program."""

    reads_by: Sharing
    writes_by: Sharing
    touches: tuple[Buffer, ...]
    emit: Callable[[Any, Place, PlaceBuffer], None]
    label: str = ""  # what a profile calls it


def find_segments(ops: Sequence[NativeOp]) -> list[int]:
    """The segment of every op. Where it grows there is a barrier."""
    segments: list[int] = []
    segment, shared_by = 0, "any"
    for i, op in enumerate(ops):
        if i > 0 and (op.reads_by == "any" or op.reads_by != shared_by):
            segment += 1
        segments.append(segment)
        shared_by = op.writes_by
    return segments


def assign_offsets(ops: Sequence[NativeOp], segments: Sequence[int]) -> tuple[dict[Buffer, int], int]:
    """The offset of every buffer in bytes, and the size of the arena. The largest go first, each as low as it fits."""
    lifetimes: dict[Buffer, tuple[int, int]] = {}
    for op, segment in zip(ops, segments, strict=True):
        for buffer in op.touches:
            lifetimes[buffer] = (lifetimes.get(buffer, (segment, segment))[0], segment)
    offsets: dict[Buffer, int] = {}
    arena_bytes = 0
    for buffer in sorted(lifetimes, key=lambda each: -each.size_bytes):
        first, last = lifetimes[buffer]
        rivals = [b for b in offsets if lifetimes[b][0] <= last and first <= lifetimes[b][1]]
        offset = lowest_gap(buffer.size_bytes, [(offsets[b], offsets[b] + b.size_bytes) for b in rivals])
        offsets[buffer] = offset
        arena_bytes = max(arena_bytes, offset + buffer.size_bytes)
    return offsets, arena_bytes


def lowest_gap(size_bytes: int, taken: Sequence[tuple[int, int]]) -> int:
    """The lowest aligned offset at which `size_bytes` overlap none of the `taken` ranges.

    >>> lowest_gap(100, [(0, 4096), (12288, 16384)])
    4096
    """
    offset = 0
    for begin, end in sorted(taken):
        if offset + size_bytes <= begin:
            break
        offset = max(offset, -(-end // ALIGNMENT_BYTES) * ALIGNMENT_BYTES)
    return offset
