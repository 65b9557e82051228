"""y[t, n] = sum_k x[t, k] * weight[n, k] + bias[n].

Sums in float32 or wider, in an order that depends on nothing but the row. Cost: 2*T*N*K operations; the
weight is read once per step, which bounds small T.
"""

from __future__ import annotations

from pelton.plan.plan import Value, WeightRef
from pelton.plan.recorder import Recorder


def linear(p: Recorder, x_TK: Value, weight_NK: WeightRef, bias_N: WeightRef | None = None) -> Value:
    """The product of every row with the weight: [T, N]."""
    assert x_TK.shape[-1] == weight_NK.shape[1], f"linear: {x_TK} does not fit {weight_NK}"
    assert bias_N is None or bias_N.shape == weight_NK.shape[:1], f"linear: {bias_N} does not fit {weight_NK}"
    y_TN = p.value((*x_TK.shape[:-1], weight_NK.shape[0]))
    p.record("linear", (x_TK,), (weight_NK, bias_N), (y_TN,))
    return y_TN
