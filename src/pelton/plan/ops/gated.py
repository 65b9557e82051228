"""y[t, f] = act(x[t, f]) * x[t, F + f]: the gate is the first half (Shazeer 2020, arXiv:2002.05202).

Cost: 3 values moved per result.
"""

from __future__ import annotations

import numpy as np

from pelton.plan.op_spec import Case, OpSpec, elementwise, normal
from pelton.plan.plan import Value
from pelton.plan.recorder import Recorder


def gated(p: Recorder, x_TF2: Value, kind: str) -> Value:
    """The gated product of the two halves of `x_TF2`: [T, F]. `kind` as in `activation`."""
    half, rest = divmod(int(x_TF2.shape[-1]), 2)
    assert rest == 0, f"gated: {x_TF2} has no two halves"
    y_TF = p.value((*x_TF2.shape[:-1], half))
    p.record("gated", (x_TF2,), (), (y_TF,), kind=kind)
    return y_TF


def sample(rng: np.random.Generator) -> tuple[Case, ...]:
    """Every kind that models gate with."""
    x_TF2 = normal(rng, 6, 74, deviation=3.0)
    return tuple(
        Case(name=kind, inputs=(x_TF2,), attributes={"kind": kind}) for kind in ("silu", "gelu", "gelu_tanh", "relu")
    )


SPEC = OpSpec(
    name="gated",
    record=gated,
    tolerance={"float32": 2e-6, "bfloat16": 1e-2, "int8": 1e-2},
    sample=sample,
    cost=elementwise(9),
)
