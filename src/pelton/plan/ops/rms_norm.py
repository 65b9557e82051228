"""y = x / sqrt(mean(x^2) + eps) * weight over the last axis (Zhang & Sennrich 2019, arXiv:1910.07467).

Sums in float32. Weights are stored as they multiply: a family that stores w - 1 adds one when it loads.
Cost: 2 values moved and 4 operations per element.
"""

from __future__ import annotations

import numpy as np

from pelton.plan.op_spec import Case, OpSpec, elementwise, normal
from pelton.plan.plan import Value, WeightRef
from pelton.plan.recorder import Recorder


def rms_norm(p: Recorder, x: Value, weight_E: WeightRef | None, eps: float) -> Value:
    """`x` normalised over its last axis; `weight_E` None leaves out the product. Any leading axes."""
    assert weight_E is None or weight_E.shape == x.shape[-1:], f"rms_norm: {weight_E} does not fit {x}"
    y = p.value(x.shape)
    p.record("rms_norm", (x,), (weight_E,), (y,), eps=eps)
    return y


def sample(rng: np.random.Generator) -> tuple[Case, ...]:
    """With and without weight, per token and per head; values so small that eps counts."""
    return (
        Case(name="weight", inputs=(normal(rng, 9, 37),), weights=(normal(rng, 37),), attributes={"eps": 1e-6}),
        Case(name="no weight", inputs=(normal(rng, 1, 64),), weights=(None,), attributes={"eps": 1e-5}),
        Case(name="heads", inputs=(normal(rng, 3, 4, 12),), weights=(normal(rng, 12),), attributes={"eps": 1e-6}),
        Case(
            name="small",
            inputs=(normal(rng, 2, 37, deviation=1e-3),),
            weights=(normal(rng, 37),),
            attributes={"eps": 1e-5},
        ),
    )


SPEC = OpSpec(
    name="rms_norm",
    record=rms_norm,
    tolerance={"float32": 2e-6, "bfloat16": 1e-2, "int8": 1e-2},
    sample=sample,
    cost=elementwise(4),
)
