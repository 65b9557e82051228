"""w[t, x] = softmax(logits[t])[x] for the C experts with the largest logits, else 0: a zero is "not chosen".

Of equal logits the lower expert wins. Normalised weights are divided by their sum, which is the softmax of the chosen
logits alone: whether the softmax stands before or behind the choice is this one attribute. Sums in float32 or wider.
Shapes: T tokens, X experts, C of them chosen for a token. Cost: 2 values moved per expert and token.
Source: Shazeer et al. 2017, arXiv:1701.06538; Jiang et al. 2024, arXiv:2401.04088.
"""

from __future__ import annotations

import numpy as np

from pelton.plan.op_spec import Case, OpSpec, elementwise, normal
from pelton.plan.plan import Value
from pelton.plan.recorder import Recorder


def route(p: Recorder, logits_TX: Value, num_chosen: int, *, normalised: bool, factor: float = 1.0) -> Value:
    """Weights of the `num_chosen` largest of each row of `logits_TX`, times `factor`, and zeros: [T, X]."""
    assert len(logits_TX.shape) == 2, f"route: {logits_TX} is not one row of logits per token"
    assert 1 <= num_chosen <= int(logits_TX.shape[1]), f"route: {num_chosen} experts cannot be chosen by {logits_TX}"
    weights_TX = p.value(logits_TX.shape)
    attributes = {"num_chosen": num_chosen, "normalised": normalised, "factor": factor}
    p.record("route", (logits_TX,), (), (weights_TX,), **attributes)
    return weights_TX


def sample(rng: np.random.Generator) -> tuple[Case, ...]:
    """One expert and all of them, rows longer than a vector, and logits with many equal ones."""
    cases: list[Case] = []
    for x, chosen, normalised, factor in (
        (5, 1, False, 1.0),
        (37, 4, True, 1.0),
        (64, 8, False, 2.5),
        (3, 3, True, 1.0),
    ):
        attributes = {"num_chosen": chosen, "normalised": normalised, "factor": factor}
        logits_TX = normal(rng, 6, x, deviation=3.0)
        cases.append(Case(name=f"X={x} C={chosen} {normalised}", inputs=(logits_TX,), attributes=attributes))
    equal_TX = np.round(normal(rng, 9, 19))
    attributes = {"num_chosen": 6, "normalised": True, "factor": 1.0}
    cases.append(Case(name="ties", inputs=(equal_TX,), attributes=attributes))
    return tuple(cases)


SPEC = OpSpec(
    name="route",
    record=route,
    tolerance={"float32": 2e-6, "bfloat16": 2e-6, "int8": 2e-6},
    sample=sample,
    cost=elementwise(8),
)
