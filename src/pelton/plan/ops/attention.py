"""Causal attention of the step over the paged cache (Vaswani et al. 2017, arXiv:1706.03762; Kwon et al. 2023,
arXiv:2309.06180).

First the keys and values of the step are written to their slots of layer `layer`. Then for each token t at position p
of its request and each query head h, with g = h // (H / K): s_j = scale * q.k_j for j in (p - window, p], capped as
cap * tanh(s / cap) where a cap is given; y = sum_j softmax(s)_j * v_j. A head's sink, where it has one, is one more
score of its softmax with nothing behind it (Xiao et al. 2023, arXiv:2309.17453). Query heads of a group share keys, so
a cache line is read once per group. Softmax in float32 in fixed tiles: a sum does not depend on how a prompt was cut.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pelton.plan.op_spec import Case, Cost, OpSpec, Sizes, normal
from pelton.plan.plan import Node, Value, WeightRef
from pelton.plan.recorder import Recorder


def attention(
    p: Recorder,
    q_THD: Value,
    k_TKD: Value,
    v_TKD: Value,
    layer: int,
    *,
    scale: float,
    window: int | None = None,
    softcap: float | None = None,
    sinks_H: WeightRef | None = None,
) -> Value:
    """What each token gathers from its request's tokens up to itself: [T, H*D]."""
    num_heads, num_kv_heads = int(q_THD.shape[1]), int(k_TKD.shape[1])
    assert num_heads % num_kv_heads == 0, f"attention: {num_heads} heads cannot share {num_kv_heads} kv heads evenly"
    y = p.value((q_THD.shape[0], num_heads * int(v_TKD.shape[2])))
    assert sinks_H is None or sinks_H.shape == (num_heads,), f"attention: {sinks_H} is not one sink per head"
    attributes = {"layer": layer, "scale": scale, "window": window, "softcap": softcap}
    p.record("attention", (q_THD, k_TKD, v_TKD), (sinks_H,), (y,), **attributes)
    return y


def record(
    p: Recorder, q_THD: Value, k_TKD: Value, v_TKD: Value, sinks_H: WeightRef | None = None, **attributes: Any
) -> Value:
    """`attention` with its weight behind the inputs, where all ops have theirs."""
    return attention(p, q_THD, k_TKD, v_TKD, sinks_H=sinks_H, **attributes)


def sample(rng: np.random.Generator) -> tuple[Case, ...]:
    """One head and groups, head sizes that are multiples of nothing, windows below and above the context, caps.

    Two cases have sinks.
    """
    cases: tuple[tuple[int, int, int, int, float, int | None, float | None, bool], ...] = (
        (1, 1, 1, 16, 0.25, None, None, False),
        (23, 4, 4, 20, 0.3, None, None, False),
        (41, 14, 2, 64, 0.125, None, None, False),
        (30, 6, 3, 10, 0.5, 5, None, False),
        (30, 4, 1, 32, 1.0, None, 4.0, False),
        (33, 8, 2, 48, 0.4, 64, 2.0, False),
        (9, 3, 1, 8, 6.0, 1, None, False),
        (37, 6, 2, 40, 0.2, None, None, True),
        (21, 8, 1, 16, 0.3, 7, 3.0, True),
    )
    return tuple(
        Case(
            name=f"T={t} H={h} K={k} D={d} window={window} softcap={softcap}{' sinks' if has_sinks else ''}",
            inputs=(normal(rng, t, h, d), normal(rng, t, k, d), normal(rng, t, k, d)),
            weights=(2 * normal(rng, h),) if has_sinks else (None,),
            attributes={"layer": 0, "scale": scale, "window": window, "softcap": softcap},
        )
        for t, h, k, d, scale, window, softcap, has_sinks in cases
    )


def cost(node: Node, sizes: Sizes) -> Cost:
    """Each key and value of the context that some token sees is read once per request and step."""
    q_THD, k_TKD, v_TKD = node.inputs
    window = node.attribute("window")
    per_token = int(k_TKD.shape[1]) * (int(k_TKD.shape[2]) + int(v_TKD.shape[2])) * sizes.kv_value_bytes
    per_score = 2 * int(q_THD.shape[1]) * (int(k_TKD.shape[2]) + int(v_TKD.shape[2]))
    num_read, num_scores = 0, 0
    for computed, new in sizes.requests:
        reach = computed + new if not isinstance(window, int) else window
        num_read += computed + new - max(0, computed - reach + 1) if new else 0
        num_scores += sum(min(position + 1, reach) for position in range(computed, computed + new))
    num_bytes = sizes.moved_bytes(node) + (sizes.num_tokens + num_read) * per_token
    return Cost(num_bytes, num_scores * per_score)


SPEC = OpSpec(
    name="attention",
    record=record,
    tolerance={"float32": 1e-5, "bfloat16": 2e-2, "int8": 2e-2},
    sample=sample,
    cost=cost,
)
