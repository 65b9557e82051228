"""Steps and programs for tests: the arrays of a step from plain Python values, and executables with their cache."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pelton.backends.executable import Backend, Executable, Limits, SamplingInputs, StepInputs
from pelton.checkpoint.weight import Tensor, Weight
from pelton.plan import Plan
from pelton.runner.direct_step import step_of

NUM_BLOCKS = 64
LIMITS = Limits(
    max_num_batched_tokens=64,
    max_num_requests=8,
    max_num_logits_rows=64,
    block_size=16,
    max_blocks_per_request=8,
    num_threads=1,
)


def dense_weight(name: str, array: np.ndarray[Any, Any]) -> Weight:
    """`array` as a float32 weight of one part."""
    rows = array.astype(np.float32)
    payload = rows.reshape(-1, rows.shape[-1] if rows.ndim > 1 else rows.size).view(np.uint8)
    return Weight(name, (Tensor(name, array.shape, "F32", payload),))


def program(
    backend: Backend, plan: Plan, weights: Mapping[str, Weight], limits: Limits = LIMITS, num_blocks: int = NUM_BLOCKS
) -> Executable:
    """`plan`, compiled, with a cache full of nonsense: what is not written must not be read."""
    executable = backend.compile(plan, weights, limits)
    memory = np.full(num_blocks * executable.kv_bytes_per_block + 64, 0xFF, np.uint8)
    executable.bind_kv(memory[-memory.ctypes.data % 64 :], num_blocks)
    return executable


def sampling_inputs(
    num_rows: int,
    *,
    history: Sequence[Sequence[int]] | None = None,
    bias: Sequence[Mapping[int, float]] | None = None,
    **settings: Any,
) -> SamplingInputs:
    """Greedy sampling of `num_rows` rows; `settings` are values for all rows, or one per row, by their names."""
    history = history or [()] * num_rows
    bias = bias or [{}] * num_rows

    def rows(name: str, neutral: float, dtype: type[np.generic]) -> Any:
        return np.array(np.broadcast_to(np.asarray(settings.pop(name, neutral), dtype), (num_rows,)))

    made = SamplingInputs(
        temperature_S=rows("temperature", 0.0, np.float32),
        top_k_S=rows("top_k", 0, np.int32),
        top_p_S=rows("top_p", 1.0, np.float32),
        min_p_S=rows("min_p", 0.0, np.float32),
        presence_S=rows("presence", 0.0, np.float32),
        frequency_S=rows("frequency", 0.0, np.float32),
        repetition_S=rows("repetition", 1.0, np.float32),
        seed_S=rows("seed", 0, np.uint64),
        position_S=rows("position", 0, np.int64),
        num_logprobs_S=rows("num_logprobs", -1, np.int32),
        history_ids=np.array([i for row in history for i in row], np.int32),
        history_start_S1=np.cumsum([0, *map(len, history)], dtype=np.int32),
        history_num_prompt_S=rows("num_prompt", 0, np.int32),
        bias_ids=np.array([i for row in bias for i in row], np.int32),
        bias_values=np.array([x for row in bias for x in row.values()], np.float32),
        bias_start_S1=np.cumsum([0, *map(len, bias)], dtype=np.int32),
    )
    assert not settings, f"sampling_inputs: no setting is called {sorted(settings)}"
    return made


def step(
    requests: Sequence[tuple[Sequence[int], int]],
    *,
    block_tables: Sequence[Sequence[int]] | None = None,
    limits: Limits = LIMITS,
    sampling: SamplingInputs | None = None,
    logits_index: Sequence[int] | None = None,
) -> StepInputs:
    """A step of `requests`, each its tokens and how many were computed before. Logits of all tokens unless told.

    Request r gets blocks r * M, r * M + 1, ... in descending order within its share, unless tables are given.
    """
    contexts = [computed + len(tokens) for tokens, computed in requests]
    max_blocks = limits.max_blocks_per_request
    if block_tables is None:
        block_tables = [
            range((r + 1) * max_blocks - 1, (r + 1) * max_blocks - 1 - -(-context // limits.block_size), -1)
            for r, context in enumerate(contexts)
        ]
    with_blocks = [
        (list(tokens), computed, list(blocks))
        for (tokens, computed), blocks in zip(requests, block_tables, strict=True)
    ]
    made = step_of(with_blocks, max_blocks)
    index_S = made.logits_index_S if logits_index is None else np.asarray(logits_index, np.int32)
    return replace(made, logits_index_S=index_S, sampling=sampling or sampling_inputs(len(index_S)))
