"""y = x + other, element by element: the residual stream. Cost: 3 values moved per element."""

from __future__ import annotations

import numpy as np

from pelton.plan.op_spec import Case, OpSpec, elementwise, normal
from pelton.plan.plan import Value
from pelton.plan.recorder import Recorder


def add(p: Recorder, x: Value, other: Value) -> Value:
    """The sum of two values of the same shape."""
    assert x.shape == other.shape, f"add: {x} and {other} differ"
    y = p.value(x.shape)
    p.record("add", (x, other), (), (y,))
    return y


def sample(rng: np.random.Generator) -> tuple[Case, ...]:
    """One token and several."""
    return tuple(Case(name=f"T={t}", inputs=(normal(rng, t, 37), normal(rng, t, 37, deviation=9.0))) for t in (1, 9))


SPEC = OpSpec(
    name="add",
    record=add,
    tolerance={"float32": 1e-6, "bfloat16": 1e-2, "int8": 1e-2},
    sample=sample,
    cost=elementwise(1),
)
