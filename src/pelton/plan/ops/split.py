"""Cuts the last axis into pieces of the given sizes. A view: costs nothing."""

from __future__ import annotations

from pelton.plan.plan import Value
from pelton.plan.recorder import Recorder


def split(p: Recorder, x: Value, sizes: tuple[int, ...]) -> tuple[Value, ...]:
    """The pieces of `x`, in order. Their sizes add up to the last axis."""
    assert sum(sizes) == x.shape[-1], f"split: {sizes} do not add up to the last axis of {x}"
    pieces = tuple(p.value((*x.shape[:-1], size)) for size in sizes)
    p.record("split", (x,), (), pieces, sizes=sizes)
    return pieces
