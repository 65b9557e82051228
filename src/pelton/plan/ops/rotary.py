"""Turns pairs of dimensions by an angle that grows with the position (Su et al. 2021, arXiv:2104.09864).

With r = rotary_dim, i < r/2, a = position * inv_freq[i], and f = attention_factor:
y[i] = f * (x[i] * cos a - x[i + r/2] * sin a);  y[i + r/2] = f * (x[i + r/2] * cos a + x[i] * sin a).
Dimensions from r on pass unchanged. Cost: 2 values moved and 6 operations per element; the angles come from a table.
"""

from __future__ import annotations

import numpy as np

from pelton.plan.op_spec import Case, OpSpec, elementwise, normal
from pelton.plan.plan import Value
from pelton.plan.recorder import Recorder


def rotary(p: Recorder, x_THD: Value, inv_freq: tuple[float, ...], attention_factor: float = 1.0) -> Value:
    """`x_THD` turned by the positions of its tokens; rotary_dim is twice the length of `inv_freq`."""
    assert 2 * len(inv_freq) <= int(x_THD.shape[-1]), f"rotary: {len(inv_freq)} pairs do not fit {x_THD}"
    y_THD = p.value(x_THD.shape)
    p.record("rotary", (x_THD, p.positions), (), (y_THD,), inv_freq=inv_freq, attention_factor=attention_factor)
    return y_THD


def sample(rng: np.random.Generator) -> tuple[Case, ...]:
    """Whole and partial heads, one dimension pair, late positions, an attention factor."""
    cases: list[Case] = []
    for dim, pairs, first, factor in ((16, 8, 0, 1.0), (20, 6, 3, 1.0), (6, 1, 0, 1.3), (32, 16, 90, 0.8)):
        inv_freq = tuple(float(f) for f in 10000.0 ** -(np.arange(pairs) / pairs))
        cases.append(
            Case(
                name=f"D={dim} pairs={pairs} position={first} factor={factor}",
                inputs=(normal(rng, 5, 3, dim),),
                attributes={"inv_freq": inv_freq, "attention_factor": factor},
                first_position=first,
            )
        )
    return tuple(cases)


SPEC = OpSpec(
    name="rotary",
    record=rotary,
    tolerance={"float32": 1e-5, "bfloat16": 1e-2, "int8": 1e-2},
    sample=sample,
    cost=elementwise(6),
)
