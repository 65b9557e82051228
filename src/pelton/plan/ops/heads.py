"""Reads the last axis as heads: [T, H*D] -> [T, H, D]. A view: costs nothing."""

from __future__ import annotations

import numpy as np

from pelton.plan.op_spec import Case, OpSpec, normal, view
from pelton.plan.plan import Value
from pelton.plan.recorder import Recorder


def heads(p: Recorder, x_TE: Value, num_heads: int) -> Value:
    """`x_TE` as [T, H, D]."""
    head_dim, rest = divmod(int(x_TE.shape[-1]), num_heads)
    assert rest == 0, f"heads: {x_TE} cannot be read as {num_heads} heads"
    y_THD = p.value((x_TE.shape[0], num_heads, head_dim))
    p.record("heads", (x_TE,), (), (y_THD,), num_heads=num_heads)
    return y_THD


def sample(rng: np.random.Generator) -> tuple[Case, ...]:
    """One head, and several of an odd size."""
    return tuple(
        Case(name=f"H={count}", inputs=(normal(rng, 5, 36),), attributes={"num_heads": count}) for count in (1, 4)
    )


SPEC = OpSpec(
    name="heads",
    record=heads,
    tolerance={"float32": 1e-6, "bfloat16": 1e-2, "int8": 1e-2},
    sample=sample,
    cost=view,
)
