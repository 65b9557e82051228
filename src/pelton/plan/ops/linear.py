"""y[t, n] = sum_k x[t, k] * weight[n, k] + bias[n].

Sums in float32 or wider, in an order that depends on nothing but the row. Cost: 2*T*N*K operations; the
weight is read once per step, which bounds small T.
"""

from __future__ import annotations

import numpy as np

from pelton.plan.op_spec import Case, Cost, OpSpec, Sizes, normal
from pelton.plan.plan import Node, Value, WeightRef
from pelton.plan.recorder import Recorder


def linear(p: Recorder, x_TK: Value, weight_NK: WeightRef, bias_N: WeightRef | None = None) -> Value:
    """The product of every row with the weight: [T, N]."""
    assert x_TK.shape[-1] == weight_NK.shape[1], f"linear: {x_TK} does not fit {weight_NK}"
    assert bias_N is None or bias_N.shape == weight_NK.shape[:1], f"linear: {bias_N} does not fit {weight_NK}"
    y_TN = p.value((*x_TK.shape[:-1], weight_NK.shape[0]))
    p.record("linear", (x_TK,), (weight_NK, bias_N), (y_TN,))
    return y_TN


def sample(rng: np.random.Generator) -> tuple[Case, ...]:
    """One token and several; odd sizes for dense weights, whole blocks for the others."""
    cases: list[Case] = []
    for t, n, k in ((1, 3, 5), (5, 67, 37), (1, 40, 256), (7, 33, 32), (18, 130, 512)):
        weights = (normal(rng, n, k, deviation=k**-0.5), normal(rng, n) if n % 2 else None)
        cases.append(Case(name=f"T={t} N={n} K={k}", inputs=(normal(rng, t, k),), weights=weights))
    return tuple(cases)


def cost(node: Node, sizes: Sizes) -> Cost:
    """The weight is read once, whatever T is."""
    weight_NK = node.weights[0]
    assert weight_NK is not None
    num_rows = sizes.num_elements(node.inputs[0]) // weight_NK.shape[1]
    return Cost(sizes.moved_bytes(node), 2 * num_rows * weight_NK.shape[0] * weight_NK.shape[1])


SPEC = OpSpec(
    name="linear",
    record=linear,
    tolerance={"float32": 1e-5, "bfloat16": 1e-2, "int8": 3e-2},
    sample=sample,
    cost=cost,
    matrix=0,
)
