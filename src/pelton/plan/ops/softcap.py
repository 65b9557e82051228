"""y = cap * tanh(x / cap), element by element (Gemma 2, arXiv:2408.00118). Cost: 2 values moved per element."""

from __future__ import annotations

from pelton.plan.plan import Value
from pelton.plan.recorder import Recorder


def softcap(p: Recorder, x: Value, cap: float | None) -> Value:
    """`x` squeezed into (-cap, cap). No cap records nothing."""
    if cap is None:
        return x
    y = p.value(x.shape)
    p.record("softcap", (x,), (), (y,), cap=cap)
    return y
