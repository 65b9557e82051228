"""y = x / sqrt(mean(x^2) + eps) * weight over the last axis (Zhang & Sennrich 2019, arXiv:1910.07467).

Sums in float32. Weights are stored as they multiply: a family that stores w - 1 adds one when it loads.
Cost: 2 values moved and 4 operations per element.
"""

from __future__ import annotations

from pelton.plan.plan import Value, WeightRef
from pelton.plan.recorder import Recorder


def rms_norm(p: Recorder, x: Value, weight_E: WeightRef | None, eps: float) -> Value:
    """`x` normalised over its last axis; `weight_E` None leaves out the product. Any leading axes."""
    assert weight_E is None or weight_E.shape == x.shape[-1:], f"rms_norm: {weight_E} does not fit {x}"
    y = p.value(x.shape)
    p.record("rms_norm", (x,), (weight_E,), (y,), eps=eps)
    return y
