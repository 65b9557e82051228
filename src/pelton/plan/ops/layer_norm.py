"""y = (x - mean(x)) / sqrt(var(x) + eps) * weight + bias over the last axis (Ba et al. 2016, arXiv:1607.06450).

Sums in float32, the variance from the centred values. Cost: 2 values moved and 8 operations per element.
"""

from __future__ import annotations

import numpy as np

from pelton.plan.op_spec import Case, OpSpec, elementwise, normal
from pelton.plan.plan import Value, WeightRef
from pelton.plan.recorder import Recorder


def layer_norm(p: Recorder, x: Value, weight_E: WeightRef, bias_E: WeightRef | None, eps: float) -> Value:
    """`x` centred and normalised over its last axis. Any leading axes."""
    assert weight_E.shape == x.shape[-1:], f"layer_norm: {weight_E} does not fit {x}"
    y = p.value(x.shape)
    p.record("layer_norm", (x,), (weight_E, bias_E), (y,), eps=eps)
    return y


def sample(rng: np.random.Generator) -> tuple[Case, ...]:
    """With and without bias; a mean that is large against the deviation."""
    weight_E, bias_E = normal(rng, 37), normal(rng, 37)
    return (
        Case(name="bias", inputs=(normal(rng, 9, 37),), weights=(weight_E, bias_E), attributes={"eps": 1e-5}),
        Case(name="no bias", inputs=(normal(rng, 1, 37),), weights=(weight_E, None), attributes={"eps": 1e-5}),
        Case(name="far", inputs=(normal(rng, 3, 37, mean=50.0),), weights=(weight_E, bias_E), attributes={"eps": 1e-3}),
    )


SPEC = OpSpec(
    name="layer_norm",
    record=layer_norm,
    tolerance={"float32": 2e-5, "bfloat16": 1e-2, "int8": 1e-2},
    sample=sample,
    cost=elementwise(8),
)
