"""Keeps the tokens whose logits the step wants: [T, E] -> [S, E]. Cost: S*E values moved."""

from __future__ import annotations

from pelton.plan.plan import Value
from pelton.plan.recorder import Recorder


def select_rows(p: Recorder, x_TE: Value) -> Value:
    """The rows of `x_TE` that the step's inputs name, in their order: [S, E]."""
    y_SE = p.value(("S", *x_TE.shape[1:]))
    p.record("select_rows", (x_TE,), (), (y_SE,))
    return y_SE
