"""y = act(x), element by element.

silu x * sigmoid(x); gelu 0.5 x (1 + erf(x / sqrt 2)); gelu_tanh 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))
(Hendrycks & Gimpel 2016, arXiv:1606.08415); relu max(x, 0); relu2 max(x, 0)^2. Cost: 2 values moved per element.
"""

from __future__ import annotations

import numpy as np

from pelton.plan.op_spec import Case, OpSpec, elementwise, normal
from pelton.plan.plan import Value
from pelton.plan.recorder import Recorder


def activation(p: Recorder, x: Value, kind: str) -> Value:
    """`x` through the function called `kind`, a name of `checkpoint.model_spec.Activation`."""
    y = p.value(x.shape)
    p.record("activation", (x,), (), (y,), kind=kind)
    return y


def sample(rng: np.random.Generator) -> tuple[Case, ...]:
    """Every kind, with values from deep saturation to the bend."""
    x_TE = np.concatenate((normal(rng, 7, 37), normal(rng, 2, 37, deviation=30.0)))
    return tuple(
        Case(name=kind, inputs=(x_TE,), attributes={"kind": kind})
        for kind in ("silu", "gelu", "gelu_tanh", "relu", "relu2")
    )


SPEC = OpSpec(
    name="activation",
    record=activation,
    tolerance={"float32": 2e-6, "bfloat16": 1e-2, "int8": 1e-2},
    sample=sample,
    cost=elementwise(8),
)
