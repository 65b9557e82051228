"""y = x @ weight.T + bias + other: a linear whose result joins the residual stream while it is still in registers.

The same sums as `linear` and then `add`. Cost: that of the linear, and one more value read per result.
"""

from __future__ import annotations

import numpy as np

from pelton.plan.op_spec import Case, Cost, OpSpec, Sizes, normal
from pelton.plan.plan import Node, Value, WeightRef
from pelton.plan.recorder import Recorder


def linear_add(p: Recorder, x_TK: Value, other_TN: Value, weight_NK: WeightRef, bias_N: WeightRef | None) -> Value:
    """The product of every row with the weight, plus `other_TN`: [T, N]."""
    assert x_TK.shape[-1] == weight_NK.shape[1], f"linear_add: {x_TK} does not fit {weight_NK}"
    assert other_TN.shape == (*x_TK.shape[:-1], weight_NK.shape[0]), f"linear_add: {other_TN} does not fit {weight_NK}"
    y_TN = p.value(other_TN.shape)
    p.record("linear_add", (x_TK, other_TN), (weight_NK, bias_N), (y_TN,))
    return y_TN


def sample(rng: np.random.Generator) -> tuple[Case, ...]:
    """One token and several, with and without bias."""
    cases: list[Case] = []
    for t, n, k in ((1, 3, 5), (5, 67, 37), (4, 40, 256)):
        weights = (normal(rng, n, k, deviation=k**-0.5), normal(rng, n) if n % 2 else None)
        cases.append(Case(name=f"T={t} N={n} K={k}", inputs=(normal(rng, t, k), normal(rng, t, n)), weights=weights))
    return tuple(cases)


def cost(node: Node, sizes: Sizes) -> Cost:
    """The weight is read once, whatever T is."""
    weight_NK = node.weights[0]
    assert weight_NK is not None
    num_results = sizes.num_elements(node.outputs[0])
    return Cost(sizes.moved_bytes(node), num_results * (2 * weight_NK.shape[1] + 1))


SPEC = OpSpec(
    name="linear_add",
    record=linear_add,
    tolerance={"float32": 1e-5, "bfloat16": 1e-2, "int8": 3e-2},
    sample=sample,
    cost=cost,
    matrix=0,
    fused=True,
)
