"""Whether the arrays of a step fit together. Backends for speed trust them; the reference looks."""

from __future__ import annotations

import numpy as np

from pelton.backends.executable import Limits, SamplingInputs, StepInputs


def check_step(inputs: StepInputs, limits: Limits, num_blocks: int) -> None:
    """Raise AssertionError, saying what is wrong, unless `inputs` is a step within `limits`."""
    num_tokens, num_requests = len(inputs.token_ids_T), len(inputs.context_len_R)
    assert num_tokens <= limits.max_num_batched_tokens, f"step: {num_tokens} tokens exceed the limit"
    assert num_requests <= limits.max_num_requests, f"step: {num_requests} requests exceed the limit"
    assert inputs.positions_T.shape == (num_tokens,), "step: one position per token"
    assert inputs.query_start_R1.shape == (num_requests + 1,), "step: one start per request and one end"
    assert inputs.query_start_R1[0] == 0, "step: the first request starts at token 0"
    assert inputs.query_start_R1[-1] == num_tokens, "step: requests own all tokens"
    lengths_R = np.diff(inputs.query_start_R1)
    assert (lengths_R >= 0).all(), "step: requests follow one another"
    for start, length, context_len in zip(inputs.query_start_R1, lengths_R, inputs.context_len_R, strict=False):
        expected = np.arange(context_len - length, context_len)
        given = inputs.positions_T[start : start + length]
        assert np.array_equal(given, expected), f"step: positions {given} are not the end of {context_len} tokens"
    assert inputs.block_table_RM.ndim == 2, "step: one block table per request"
    assert len(inputs.block_table_RM) == num_requests, "step: one block table per request"
    assert inputs.block_table_RM.shape[1] <= limits.max_blocks_per_request, "step: block table exceeds the limit"
    assert (inputs.block_table_RM < num_blocks).all(), f"step: a block id is not below {num_blocks}"
    check_logits_rows(inputs, limits)
    check_sampling(inputs.sampling, len(inputs.logits_index_S))


def check_logits_rows(inputs: StepInputs, limits: Limits) -> None:
    """Raise unless the rows with logits ascend, are tokens of the step and fit the limit."""
    index_S = inputs.logits_index_S
    assert len(index_S) <= limits.max_num_logits_rows, f"step: {len(index_S)} rows with logits exceed the limit"
    assert (np.diff(index_S) > 0).all(), "step: rows with logits ascend"
    assert ((index_S >= 0) & (index_S < len(inputs.token_ids_T))).all(), "step: rows with logits are tokens of the step"


def check_sampling(sampling: SamplingInputs, num_rows: int) -> None:
    """Raise unless every array of `sampling` has one entry per row and ragged ones are consistent."""
    for name in ("temperature", "top_k", "top_p", "min_p", "presence", "frequency", "repetition", "seed", "position"):
        array = getattr(sampling, f"{name}_S")
        assert array.shape == (num_rows,), f"step: {name}_S has shape {array.shape}, {num_rows} rows are sampled"
    assert sampling.num_logprobs_S.shape == (num_rows,), "step: num_logprobs_S has one entry per row"
    assert sampling.history_num_prompt_S.shape == (num_rows,), "step: history_num_prompt_S has one entry per row"
    for start_S1, flat in (
        (sampling.history_start_S1, sampling.history_ids),
        (sampling.bias_start_S1, sampling.bias_ids),
    ):
        assert start_S1.shape == (num_rows + 1,), "step: ragged arrays have one start per row and one end"
        assert (np.diff(start_S1) >= 0).all(), "step: rows of ragged arrays follow one another"
        assert start_S1[-1] <= len(flat), "step: the last row ends within the array"
