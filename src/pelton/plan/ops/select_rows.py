"""Keeps the tokens whose logits the step wants: [T, E] -> [S, E]. Cost: S*E values moved."""

from __future__ import annotations

import numpy as np

from pelton.plan.op_spec import Case, Cost, OpSpec, Sizes, normal
from pelton.plan.plan import Node, Value
from pelton.plan.recorder import Recorder


def select_rows(p: Recorder, x_TE: Value) -> Value:
    """The rows of `x_TE` that the step's inputs name, in their order: [S, E]."""
    y_SE = p.value(("S", *x_TE.shape[1:]))
    p.record("select_rows", (x_TE,), (), (y_SE,))
    return y_SE


def sample(rng: np.random.Generator) -> tuple[Case, ...]:
    """One token and several."""
    return tuple(Case(name=f"T={t}", inputs=(normal(rng, t, 37),)) for t in (1, 9))


def cost(node: Node, sizes: Sizes) -> Cost:
    """Wanted rows are read and written, the others not touched."""
    return Cost(2 * sizes.num_elements(node.outputs[0]) * sizes.value_bytes)


SPEC = OpSpec(
    name="select_rows",
    record=select_rows,
    tolerance={"float32": 1e-6, "bfloat16": 1e-2, "int8": 1e-2},
    sample=sample,
    cost=cost,
)
