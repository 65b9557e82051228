"""Steps made by hand: token ids through an executable without an engine, for measurements and tests of logits.

Letters: T tokens of the step, S rows whose logits are wanted (here all of them), M blocks per request, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from pelton.backends.executable import Executable, Float32, Int32, SamplingInputs, StepInputs

LogitsReader = Callable[[list[int]], Iterator[Float32]]  # token ids [T] of one text -> logits [T, V], rows in pieces


def greedy_inputs(num_rows: int, position_S: Int32) -> SamplingInputs:
    """Greedy sampling for every row, nothing else asked."""
    zeros, no_ids = np.zeros(num_rows, np.float32), np.zeros(0, np.int32)
    starts = np.zeros(num_rows + 1, np.int32)
    return SamplingInputs(
        temperature_S=zeros,
        top_k_S=np.zeros(num_rows, np.int32),
        top_p_S=np.ones(num_rows, np.float32),
        min_p_S=zeros,
        presence_S=zeros,
        frequency_S=zeros,
        repetition_S=np.ones(num_rows, np.float32),
        seed_S=np.zeros(num_rows, np.uint64),
        position_S=position_S.astype(np.int64),
        num_logprobs_S=np.full(num_rows, -1, np.int32),
        history_ids=no_ids,
        history_start_S1=starts,
        history_num_prompt_S=np.zeros(num_rows, np.int32),
        bias_ids=no_ids,
        bias_values=np.zeros(0, np.float32),
        bias_start_S1=starts,
    )


def step_of(requests: list[tuple[list[int], int, list[int]]], max_blocks: int) -> StepInputs:
    """A step over requests (new token ids, tokens already computed, block ids); logits of every new token."""
    token_ids = [t for ids, _, _ in requests for t in ids]
    positions = [done + i for ids, done, _ in requests for i in range(len(ids))]
    starts = np.cumsum([0] + [len(ids) for ids, _, _ in requests])
    table = np.full((len(requests), max_blocks), -1, np.int32)
    for row, (_, _, blocks) in enumerate(requests):
        table[row, : len(blocks)] = blocks
    positions_T = np.array(positions, np.int32)
    return StepInputs(
        token_ids_T=np.array(token_ids, np.int32),
        positions_T=positions_T,
        query_start_R1=starts.astype(np.int32),
        context_len_R=np.array([done + len(ids) for ids, done, _ in requests], np.int32),
        block_table_RM=table,
        logits_index_S=np.arange(len(token_ids), dtype=np.int32),
        sampling=greedy_inputs(len(token_ids), positions_T + 1),
    )


def stream_logits(
    executable: Executable, ids: list[int], blocks: list[int], *, chunk: int, max_blocks: int
) -> Iterator[Float32]:
    """Logits of a request that is computed `chunk` tokens a step, one array [chunk or less, V] per step."""
    for start in range(0, len(ids), chunk):
        step = step_of([(ids[start : start + chunk], start, blocks)], max_blocks)
        logits_SV = executable.run(step, want_logits=True).logits_SV
        assert logits_SV is not None
        yield logits_SV


def logits_of(executable: Executable, ids: list[int], blocks: list[int], *, chunk: int, max_blocks: int) -> Float32:
    """Logits [len(ids), V], all at once."""
    return np.concatenate(list(stream_logits(executable, ids, blocks, chunk=chunk, max_blocks=max_blocks)))
