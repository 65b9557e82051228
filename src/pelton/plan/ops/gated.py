"""y[t, f] = act(x[t, f]) * x[t, F + f]: the gate is the first half (Shazeer 2020, arXiv:2002.05202).

Cost: 3 values moved per result.
"""

from __future__ import annotations

from pelton.plan.plan import Value
from pelton.plan.recorder import Recorder


def gated(p: Recorder, x_TF2: Value, kind: str) -> Value:
    """The gated product of the two halves of `x_TF2`: [T, F]. `kind` as in `activation`."""
    half, rest = divmod(int(x_TF2.shape[-1]), 2)
    assert rest == 0, f"gated: {x_TF2} has no two halves"
    y_TF = p.value((*x_TF2.shape[:-1], half))
    p.record("gated", (x_TF2,), (), (y_TF,), kind=kind)
    return y_TF
