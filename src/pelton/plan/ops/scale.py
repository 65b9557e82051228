"""y = factor * x, element by element. Cost: 2 values moved per element."""

from __future__ import annotations

import numpy as np

from pelton.plan.op_spec import Case, OpSpec, elementwise, normal
from pelton.plan.plan import Value
from pelton.plan.recorder import Recorder


def scale(p: Recorder, x: Value, factor: float) -> Value:
    """`x` times a constant. A factor of one records nothing."""
    if factor == 1.0:
        return x
    y = p.value(x.shape)
    p.record("scale", (x,), (), (y,), factor=factor)
    return y


def sample(rng: np.random.Generator) -> tuple[Case, ...]:
    """A large factor and a negative one."""
    return tuple(
        Case(name=f"factor={factor}", inputs=(normal(rng, 3, 37),), attributes={"factor": factor})
        for factor in (25.3, -0.01)
    )


SPEC = OpSpec(
    name="scale",
    record=scale,
    tolerance={"float32": 1e-6, "bfloat16": 1e-2, "int8": 1e-2},
    sample=sample,
    cost=elementwise(1),
)
