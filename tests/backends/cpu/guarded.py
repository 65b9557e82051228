"""Memory at the edge of pages that nothing may touch: a kernel that reads or writes one byte too far dies there.

Arrays of the tests stand in mappings of their own. The arenas of the native module go to the edge by themselves, and
the buffers inside the arena of a program are moved apart, each in pages of its own with a forbidden one between.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pytest

from pelton.backends.cpu import _native, backend
from pelton.backends.cpu.buffer_plan import Buffer, NativeOp
from pelton.backends.executable import StepInputs

Edge = Literal["begin", "end"]
EDGES: tuple[Edge, ...] = ("begin", "end")
PAGE = mmap.PAGESIZE
ALIGNMENT = 64  # of everything that a kernel may take for aligned

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)


def forbid(address: int, num_bytes: int) -> None:
    """Make whole pages untouchable."""
    assert address % PAGE == num_bytes % PAGE == 0, "only whole pages can be protected"
    if _libc.mprotect(address, num_bytes, 0) != 0:
        raise OSError(ctypes.get_errno(), "mprotect")


def round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


def guarded_empty(shape: tuple[int, ...], dtype: npt.DTypeLike, edge: Edge, alignment: int = 1) -> npt.NDArray[Any]:
    """An array of zeros whose first byte follows, or whose last byte comes before, a page that may not be touched."""
    num_bytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
    usable = round_up(max(num_bytes, 1), PAGE)
    mapping = mmap.mmap(-1, usable + 2 * PAGE)
    whole = np.frombuffer(mapping, np.uint8)
    forbid(whole.ctypes.data, PAGE)
    forbid(whole.ctypes.data + PAGE + usable, PAGE)
    first = PAGE if edge == "begin" else PAGE + usable - round_up(num_bytes, alignment)
    return whole[first : first + num_bytes].view(dtype).reshape(shape)


def guarded(array: npt.NDArray[Any], edge: Edge) -> npt.NDArray[Any]:
    """A copy of `array` at the edge."""
    copy = guarded_empty(array.shape, array.dtype, edge)
    copy[...] = array
    return copy


def guarded_step(inputs: StepInputs, edge: Edge) -> StepInputs:
    """The same step from arrays at the edge."""

    def moved(group: Any) -> dict[str, npt.NDArray[Any]]:
        values = ((field.name, getattr(group, field.name)) for field in fields(group))
        return {name: guarded(value, edge) for name, value in values if isinstance(value, np.ndarray)}

    sampling = replace(inputs.sampling, **moved(inputs.sampling))
    return replace(inputs, **moved(inputs), sampling=sampling)


class SpreadBuffers:
    """Places for buffers, none of which share pages; afterwards, the pages between them are made untouchable."""

    def __init__(self, edge: Edge) -> None:
        self._edge = edge
        self._gaps: list[int] = []

    def assign_offsets(self, ops: Sequence[NativeOp], segments: Sequence[int]) -> tuple[dict[Buffer, int], int]:
        """In the place of `buffer_plan.assign_offsets`."""
        offsets: dict[Buffer, int] = {}
        end, self._gaps = PAGE, [0]
        for op in ops:
            for buffer in op.touches:
                if buffer in offsets:
                    continue
                usable = round_up(max(buffer.size_bytes, 1), PAGE)
                needed = round_up(buffer.size_bytes, ALIGNMENT)
                offsets[buffer] = end if self._edge == "begin" else end + usable - needed
                self._gaps.append(end + usable)
                end += usable + PAGE
        return offsets, end

    def close_gaps(self, program: _native.Program) -> None:
        """Forbid the pages between the buffers of `program`."""
        first = program.buffers().ctypes.data
        for gap in self._gaps:
            forbid(first + gap, PAGE)


@contextmanager
def guarded_arenas(edge: Edge) -> Iterator[None]:
    """Arenas made meanwhile stand at the edge."""
    _native.set_arena_edge(_native.ArenaEdge.Begin if edge == "begin" else _native.ArenaEdge.End)
    try:
        yield
    finally:
        _native.set_arena_edge(_native.ArenaEdge.Nowhere)


@contextmanager
def guarded_programs(edge: Edge) -> Iterator[SpreadBuffers]:
    """Programs compiled meanwhile have their buffers apart; `close_gaps` then forbids what is between."""
    spread = SpreadBuffers(edge)
    with guarded_arenas(edge), pytest.MonkeyPatch.context() as patch:
        patch.setattr(backend, "assign_offsets", spread.assign_offsets)
        yield spread
