"""Causal attention of the step over the paged cache (Vaswani et al. 2017, arXiv:1706.03762; Kwon et al. 2023,
arXiv:2309.06180).

First the keys and values of the step are written to their slots of layer `layer`. Then for each token t at position p
of its request and each query head h, with g = h // (H / K): s_j = scale * q.k_j for j in (p - window, p], capped as
cap * tanh(s / cap) where a cap is given; y = sum_j softmax(s)_j * v_j. Query heads of one group share keys, so a cache
line is read once per group. Softmax in float32 in fixed tiles: the sum does not depend on how the prompt was chunked.
"""

from __future__ import annotations

from pelton.plan.plan import Value
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
) -> Value:
    """What each token gathers from its request's tokens up to itself: [T, H*D]."""
    num_heads, num_kv_heads = int(q_THD.shape[1]), int(k_TKD.shape[1])
    assert num_heads % num_kv_heads == 0, f"attention: {num_heads} heads cannot share {num_kv_heads} kv heads evenly"
    y = p.value((q_THD.shape[0], num_heads * int(v_TKD.shape[2])))
    p.record("attention", (q_THD, k_TKD, v_TKD), (), (y,), layer=layer, scale=scale, window=window, softcap=softcap)
    return y
