"""The ops that know which step is running: attention over the paged cache, and the choice of rows with logits.

Requests are treated one after the other and key/value heads one after the other, so memory is bounded by
(tokens of a request) x (its context) x (query heads of one group).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pelton.backends.executable import StepInputs
from pelton.backends.reference.array import Array, Int32
from pelton.backends.reference.kv_cache import KVCache


@dataclass(frozen=True, slots=True)
class StepContext:
    """What those ops may look at."""

    inputs: StepInputs
    cache: KVCache


def select_rows(context: StepContext, x_TE: Array) -> Array:
    """The rows whose logits are wanted."""
    return x_TE[context.inputs.logits_index_S]


def attention(
    context: StepContext,
    q_THD: Array,
    k_TKD: Array,
    v_TKD: Array,
    sinks_H: Array | None,
    *,
    layer: int,
    scale: float,
    window: int | None,
    softcap: float | None,
) -> Array:
    """Writes keys and values of the step to the cache, then gathers for each token what it attends to: [T, H*D]."""
    inputs = context.inputs
    num_heads, num_kv_heads = q_THD.shape[1], k_TKD.shape[1]
    y_THD = np.empty((len(q_THD), num_heads, v_TKD.shape[2]), q_THD.dtype)
    for r, block_table_M in enumerate(inputs.block_table_RM):
        tokens = slice(int(inputs.query_start_R1[r]), int(inputs.query_start_R1[r + 1]))
        if tokens.start == tokens.stop:
            continue
        positions_N = inputs.positions_T[tokens]
        context.cache.write(layer, block_table_M, positions_N, k_TKD[tokens], v_TKD[tokens])
        first = 0 if window is None else max(0, int(positions_N[0]) - window + 1)
        seen_C = np.arange(first, int(inputs.context_len_R[r]), dtype=np.int32)
        k_CKD, v_CKD = context.cache.read(layer, block_table_M, seen_C)
        group = num_heads // num_kv_heads
        for head in range(num_kv_heads):
            q_NGD = q_THD[tokens, head * group : (head + 1) * group]
            scores_NGC = q_NGD @ k_CKD[:, head].T * scale
            sinks_G = None if sinks_H is None else sinks_H[head * group : (head + 1) * group]
            y_NGD = attend(scores_NGC, v_CKD[:, head], visible(positions_N, seen_C, window), softcap, sinks_G)
            y_THD[tokens, head * group : (head + 1) * group] = y_NGD
    return y_THD.reshape(len(q_THD), -1)


def visible(positions_N: Int32, seen_C: Int32, window: int | None) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """Which of the cached positions each token attends to: [N, 1, C]."""
    distance_NC = positions_N[:, None] - seen_C[None, :]
    return ((distance_NC >= 0) & (distance_NC < (math.inf if window is None else window)))[:, None, :]


def attend(
    scores_NGC: Array,
    v_CD: Array,
    visible_N1C: np.ndarray[tuple[int, ...], np.dtype[np.bool_]],
    softcap: float | None,
    sinks_G: Array | None = None,
) -> Array:
    """softmax(scores, where visible, and the sink) @ v, with scores capped first; a sink has no value."""
    if softcap is not None:
        scores_NGC = softcap * np.tanh(scores_NGC / softcap)
    masked_NGC = np.where(visible_N1C, scores_NGC, -np.inf)
    largest_NG1 = masked_NGC.max(axis=-1, keepdims=True)
    if sinks_G is not None:
        largest_NG1 = np.maximum(largest_NG1, sinks_G[:, None])
    weights_NGC = np.exp(masked_NGC - largest_NG1)
    total_NG1 = weights_NGC.sum(axis=-1, keepdims=True)
    if sinks_G is not None:
        total_NG1 = total_NG1 + np.exp(sinks_G[:, None] - largest_NG1)
    y_NGD: Array = (weights_NGC / total_NG1).astype(v_CD.dtype) @ v_CD
    return y_NGD
