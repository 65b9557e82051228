"""y = act(x), element by element.

silu x * sigmoid(x); gelu 0.5 x (1 + erf(x / sqrt 2)); gelu_tanh 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))
(Hendrycks & Gimpel 2016, arXiv:1606.08415); relu max(x, 0); relu2 max(x, 0)^2. Cost: 2 values moved per element.
"""

from __future__ import annotations

from pelton.plan.plan import Value
from pelton.plan.recorder import Recorder


def activation(p: Recorder, x: Value, kind: str) -> Value:
    """`x` through the function called `kind`, a name of `checkpoint.model_spec.Activation`."""
    y = p.value(x.shape)
    p.record("activation", (x,), (), (y,), kind=kind)
    return y
