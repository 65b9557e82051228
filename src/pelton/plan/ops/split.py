"""Cuts the last axis into pieces of the given sizes. A view: costs nothing."""

from __future__ import annotations

import numpy as np

from pelton.plan.op_spec import Case, OpSpec, normal, view
from pelton.plan.plan import Value
from pelton.plan.recorder import Recorder


def split(p: Recorder, x: Value, sizes: tuple[int, ...]) -> tuple[Value, ...]:
    """The pieces of `x`, in order. Their sizes add up to the last axis."""
    assert sum(sizes) == x.shape[-1], f"split: {sizes} do not add up to the last axis of {x}"
    pieces = tuple(p.value((*x.shape[:-1], size)) for size in sizes)
    p.record("split", (x,), (), pieces, sizes=sizes)
    return pieces


def sample(rng: np.random.Generator) -> tuple[Case, ...]:
    """Pieces of odd sizes, and a single one."""
    return tuple(
        Case(name=f"sizes={sizes}", inputs=(normal(rng, 5, sum(sizes)),), attributes={"sizes": sizes})
        for sizes in ((14, 3, 20), (8, 8), (5,))
    )


SPEC = OpSpec(
    name="split",
    record=split,
    tolerance={"float32": 1e-6, "bfloat16": 1e-2, "int8": 1e-2},
    sample=sample,
    cost=view,
)
