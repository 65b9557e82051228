"""Reads the last axis as heads: [T, H*D] -> [T, H, D]. A view: costs nothing."""

from __future__ import annotations

from pelton.plan.plan import Value
from pelton.plan.recorder import Recorder


def heads(p: Recorder, x_TE: Value, num_heads: int) -> Value:
    """`x_TE` as [T, H, D]."""
    head_dim, rest = divmod(int(x_TE.shape[-1]), num_heads)
    assert rest == 0, f"heads: {x_TE} cannot be read as {num_heads} heads"
    y_THD = p.value((x_TE.shape[0], num_heads, head_dim))
    p.record("heads", (x_TE,), (), (y_THD,), num_heads=num_heads)
    return y_THD
