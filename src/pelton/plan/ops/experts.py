"""y[t] = sum of w[t, x] * down_x(act(gate_x(h[t])) * up_x(h[t])) over the experts x whose weight w[t, x] is not 0.

Matrices of all experts stand below one another: gate_up is [X * 2F, E], gate before up in each expert; down [X * E, F].
At most C weights of a row are not 0 (`route` makes them so). Sums over k as in `linear`, then over experts in ascending
order: a row's result does not depend on which rows share its experts. Shapes: T tokens, E hidden size, X experts,
F feed-forward size of one. Cost: 6*T*C*E*F operations; the weights of chosen experts are read once per step.
Source: Shazeer et al. 2017, arXiv:1701.06538.
"""

from __future__ import annotations

import numpy as np

from pelton.plan.op_spec import Array, Case, Cost, OpSpec, Sizes, normal
from pelton.plan.plan import Attribute, Node, Value, WeightRef
from pelton.plan.recorder import Recorder


def experts(
    p: Recorder,
    h_TE: Value,
    weights_TX: Value,
    gate_up_RE: WeightRef,
    down_RF: WeightRef,
    *,
    num_chosen: int,
    kind: str,
) -> Value:
    """The weighted sum of the outputs of each row's experts: [T, E]. `kind` as in `activation`; R: rows of them all."""
    num_experts, hidden_size, inner_size = int(weights_TX.shape[1]), int(h_TE.shape[1]), down_RF.shape[1]
    assert h_TE.shape[0] == weights_TX.shape[0], f"experts: {weights_TX} does not weigh {h_TE}"
    expected = ((num_experts * 2 * inner_size, hidden_size), (num_experts * hidden_size, inner_size))
    assert (gate_up_RE.shape, down_RF.shape) == expected, f"experts: {gate_up_RE} and {down_RF} do not fit {expected}"
    y_TE = p.value(h_TE.shape)
    p.record("experts", (h_TE, weights_TX), (gate_up_RE, down_RF), (y_TE,), num_chosen=num_chosen, kind=kind)
    return y_TE


def sample(rng: np.random.Generator) -> tuple[Case, ...]:
    """One token, experts that nobody and that everybody chose, rows without any, odd sizes and whole blocks."""
    cases: list[Case] = []
    for t, e, x, f, chosen, kind in (
        (1, 5, 3, 7, 2, "silu"),
        (9, 37, 6, 21, 3, "gelu_tanh"),
        (7, 256, 4, 32, 2, "silu"),
        (70, 32, 3, 64, 1, "silu"),
    ):
        weights = (normal(rng, x * 2 * f, e, deviation=e**-0.5), normal(rng, x * e, f, deviation=f**-0.5))
        inputs = (normal(rng, t, e), chosen_weights(rng, t, x, chosen))
        attributes: dict[str, Attribute] = {"num_chosen": chosen, "kind": kind}
        cases.append(Case(name=f"T={t} E={e} X={x} F={f}", inputs=inputs, weights=weights, attributes=attributes))
    return tuple(cases)


def chosen_weights(rng: np.random.Generator, num_tokens: int, num_experts: int, num_chosen: int) -> Array:
    """Weights with at most `num_chosen` per row, one row in four with fewer, and none for the last expert."""
    weights_TX = np.zeros((num_tokens, num_experts), np.float32)
    for token in range(num_tokens):
        count = num_chosen if token % 4 else rng.integers(1, num_chosen + 1)
        ids = rng.permutation(max(1, num_experts - 1))[:count]
        weights_TX[token, ids] = rng.uniform(0.1, 1.0, len(ids))
    return weights_TX


def cost(node: Node, sizes: Sizes) -> Cost:
    """As many experts are read as tokens can choose, each once."""
    down_RF = node.weights[1]
    assert down_RF is not None
    hidden_size, num_experts, inner_size = int(node.inputs[0].shape[1]), int(node.inputs[1].shape[1]), down_RF.shape[1]
    num_chosen = int(str(node.attribute("num_chosen")))
    num_tokens = sizes.num_elements(node.inputs[0]) // hidden_size
    weight_bytes = sum(sizes.weight_bytes[ref.name] for ref in node.weights if ref is not None)
    read_bytes = weight_bytes * min(num_experts, num_tokens * num_chosen) // num_experts
    num_operations = num_tokens * num_chosen * (6 * hidden_size * inner_size + 9 * inner_size + 2 * hidden_size)
    return Cost(sizes.moved_bytes(node) - weight_bytes + read_bytes, num_operations)


SPEC = OpSpec(
    name="experts",
    record=experts,
    tolerance={"float32": 1e-5, "bfloat16": 2e-2, "int8": 1e-1},
    sample=sample,
    cost=cost,
    matrix=0,
)
