"""y[t, e] = x[t, e] / (1 + exp(-gate[t, 0])): a row times the sigmoid of one number of its own.

How Qwen2-MoE weighs the expert that all tokens share (Yang et al. 2024, arXiv:2407.10671).
Cost: 2 values moved per element.
"""

from __future__ import annotations

import numpy as np

from pelton.plan.op_spec import Case, OpSpec, elementwise, normal
from pelton.plan.plan import Value
from pelton.plan.recorder import Recorder


def sigmoid_scale(p: Recorder, x_TE: Value, gate_T1: Value) -> Value:
    """Every row of `x_TE` times the sigmoid of its number in `gate_T1`: [T, E]."""
    assert len(x_TE.shape) == 2, f"sigmoid_scale: {x_TE} is not rows"
    assert gate_T1.shape == (x_TE.shape[0], 1), f"sigmoid_scale: {gate_T1} is not one number per row of {x_TE}"
    y_TE = p.value(x_TE.shape)
    p.record("sigmoid_scale", (x_TE, gate_T1), (), (y_TE,))
    return y_TE


def sample(rng: np.random.Generator) -> tuple[Case, ...]:
    """Rows with a rest behind whole vectors, gates nearly shut and nearly open."""
    gate_T1 = np.array([[-30.0], [-2.0], [0.0], [0.7], [25.0]], np.float32)
    return tuple(Case(name=f"E={size}", inputs=(normal(rng, 5, size), gate_T1)) for size in (3, 32, 53))


SPEC = OpSpec(
    name="sigmoid_scale",
    record=sigmoid_scale,
    tolerance={"float32": 2e-6, "bfloat16": 1e-2, "int8": 1e-2},
    sample=sample,
    cost=elementwise(1),
)
