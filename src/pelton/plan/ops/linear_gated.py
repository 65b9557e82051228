"""h = x @ weight.T + bias; y[t, f] = act(h[t, f]) * h[t, F + f]: gate and up are never written to memory.

The same numbers as `linear` and then `gated`. Cost: the weight read once, F values written per token instead of 2F.
"""

from __future__ import annotations

import numpy as np

from pelton.plan.op_spec import Case, Cost, OpSpec, Sizes, normal
from pelton.plan.plan import Node, Value, WeightRef
from pelton.plan.recorder import Recorder


def linear_gated(p: Recorder, x_TK: Value, weight_F2K: WeightRef, bias_F2: WeightRef | None, kind: str) -> Value:
    """The gated product of the two halves of a linear: [T, F]. `kind` as in `activation`."""
    half, rest = divmod(weight_F2K.shape[0], 2)
    assert rest == 0, f"linear_gated: {weight_F2K} has no two halves"
    assert x_TK.shape[-1] == weight_F2K.shape[1], f"linear_gated: {x_TK} does not fit {weight_F2K}"
    y_TF = p.value((*x_TK.shape[:-1], half))
    p.record("linear_gated", (x_TK,), (weight_F2K, bias_F2), (y_TF,), kind=kind)
    return y_TF


def sample(rng: np.random.Generator) -> tuple[Case, ...]:
    """One token and several, with and without bias."""
    cases: list[Case] = []
    for kind, t, f, k in (("silu", 1, 3, 5), ("gelu_tanh", 5, 34, 37), ("silu", 4, 21, 256)):
        weights = (normal(rng, 2 * f, k, deviation=k**-0.5), normal(rng, 2 * f) if f % 2 else None)
        name = f"{kind} T={t} F={f} K={k}"
        cases.append(Case(name=name, inputs=(normal(rng, t, k),), weights=weights, attributes={"kind": kind}))
    return tuple(cases)


def cost(node: Node, sizes: Sizes) -> Cost:
    """The weight is read once, whatever T is."""
    weight_F2K = node.weights[0]
    assert weight_F2K is not None
    num_results = sizes.num_elements(node.outputs[0])
    return Cost(sizes.moved_bytes(node), num_results * (4 * weight_F2K.shape[1] + 9))


SPEC = OpSpec(
    name="linear_gated",
    record=linear_gated,
    tolerance={"float32": 1e-5, "bfloat16": 2e-2, "int8": 6e-2},
    sample=sample,
    cost=cost,
    matrix=0,
    fused=True,
)
