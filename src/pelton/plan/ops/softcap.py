"""y = cap * tanh(x / cap), element by element (Gemma 2, arXiv:2408.00118). Cost: 2 values moved per element."""

from __future__ import annotations

import numpy as np

from pelton.plan.op_spec import Case, OpSpec, elementwise, normal
from pelton.plan.plan import Value
from pelton.plan.recorder import Recorder


def softcap(p: Recorder, x: Value, cap: float | None) -> Value:
    """`x` squeezed into (-cap, cap). No cap records nothing."""
    if cap is None:
        return x
    y = p.value(x.shape)
    p.record("softcap", (x,), (), (y,), cap=cap)
    return y


def sample(rng: np.random.Generator) -> tuple[Case, ...]:
    """Far below the cap and far above it."""
    return tuple(
        Case(name=f"deviation={d}", inputs=(normal(rng, 3, 37, deviation=d),), attributes={"cap": 30.0})
        for d in (0.1, 30.0, 1e4)
    )


SPEC = OpSpec(
    name="softcap",
    record=softcap,
    tolerance={"float32": 2e-6, "bfloat16": 1e-2, "int8": 1e-2},
    sample=sample,
    cost=elementwise(4),
)
