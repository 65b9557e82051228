"""Gathers the arrays of one step from the request table, without a Python loop over tokens.

Letters: T tokens of the step, R requests in it, S rows whose logits are wanted, N rows of the request table,
M blocks per request at most. Tokens of a request are neighbours, in order; requests keep the order of the schedule.
Logits are wanted only of requests whose last known token is computed in this step.

Costs about 60 us plus one copy of the block tables at 32 requests.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pelton.backends.executable import SamplingInputs, StepInputs
from pelton.core.step import ScheduledRequest
from pelton.runner.request_table import Float32, Int32, Int64, RequestTable


class GatheredStep(NamedTuple):
    """A step's arrays, and whom its S tokens belong to."""

    inputs: StepInputs
    rows_S: Int64  # rows of the request table
    request_index_S: Int64  # places in the schedule


def make_step_inputs(table: RequestTable, scheduled: tuple[ScheduledRequest, ...], repeat: int = 1) -> GatheredStep:
    """Gather a step. Writes down the blocks that requests got since their last step, and changes nothing else."""
    rows_R = table.gather_rows(scheduled)
    counts_2R = np.array([(part.num_computed_tokens, part.num_scheduled_tokens) for part in scheduled], np.int64).T
    num_computed_R, num_scheduled_R = counts_2R[0], counts_2R[1]
    context_len_R = num_computed_R + num_scheduled_R
    row_T, positions_T = flatten(rows_R, num_computed_R, num_scheduled_R)
    query_start_R1 = make_starts(num_scheduled_R)
    request_index_S = np.flatnonzero(context_len_R == table.num_tokens_N[rows_R])
    rows_S = rows_R[request_index_S]
    inputs = StepInputs(
        token_ids_T=table.token_ids_NZ[row_T, positions_T],
        positions_T=positions_T.astype(np.int32),
        query_start_R1=query_start_R1,
        context_len_R=context_len_R.astype(np.int32),
        block_table_RM=table.block_table_NM[rows_R],
        logits_index_S=query_start_R1[1:][request_index_S] - np.int32(1),
        sampling=make_sampling_inputs(table, rows_S),
        repeat=repeat,
    )
    return GatheredStep(inputs, rows_S, request_index_S)


def make_sampling_inputs(table: RequestTable, rows_S: Int64) -> SamplingInputs:
    """How each of the step's S rows is sampled."""
    num_tokens_S = table.num_tokens_N[rows_S]
    history_len_S = np.where(table.has_penalties_N[rows_S], num_tokens_S, 0)
    row_H, position_H = flatten(rows_S, np.zeros_like(rows_S), history_len_S)
    bias_ids, bias_values, bias_start_S1 = gather_bias(table, rows_S)
    return SamplingInputs(
        temperature_S=table.temperature_N[rows_S],
        top_k_S=table.top_k_N[rows_S],
        top_p_S=table.top_p_N[rows_S],
        min_p_S=table.min_p_N[rows_S],
        presence_S=table.presence_N[rows_S],
        frequency_S=table.frequency_N[rows_S],
        repetition_S=table.repetition_N[rows_S],
        seed_S=table.seed_N[rows_S],
        position_S=num_tokens_S,
        num_logprobs_S=table.num_logprobs_N[rows_S],
        history_ids=table.token_ids_NZ[row_H, position_H],
        history_start_S1=make_starts(history_len_S),
        history_num_prompt_S=np.minimum(table.num_prompt_N[rows_S], history_len_S).astype(np.int32),
        bias_ids=bias_ids,
        bias_values=bias_values,
        bias_start_S1=bias_start_S1,
    )


def gather_bias(table: RequestTable, rows_S: Int64) -> tuple[Int32, Float32, Int32]:
    """Biases of all rows, one row after the other, and where each begins. Bans hold until min_tokens outputs."""
    has_bans_S = table.num_tokens_N[rows_S] - table.num_prompt_N[rows_S] < table.min_tokens_N[rows_S]
    index_of_biased = np.flatnonzero(has_bans_S | table.has_bias_N[rows_S])
    count_S = np.zeros(len(rows_S), np.int64)
    parts: list[tuple[Int32, Float32]] = []
    for index in index_of_biased.tolist():
        row = int(rows_S[index])
        part = table.bias_with_bans_N[row] if has_bans_S[index] else table.bias_N[row]
        parts.append(part)
        count_S[index] = len(part[0])
    if not parts:
        return np.zeros(0, np.int32), np.zeros(0, np.float32), np.zeros(len(rows_S) + 1, np.int32)
    bias_ids = np.concatenate([part[0] for part in parts])
    return bias_ids, np.concatenate([part[1] for part in parts]), make_starts(count_S)


def make_starts(count_R: Int64) -> Int32:
    """Where each of several neighbouring pieces begins, and where the last ends.

    >>> make_starts(np.array([2, 0, 3])).tolist()
    [0, 2, 2, 5]
    """
    starts_R1 = np.zeros(len(count_R) + 1, np.int32)
    np.cumsum(count_R, out=starts_R1[1:])
    return starts_R1


def flatten(rows_R: Int64, first_R: Int64, count_R: Int64) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """(row, position) of positions first[r] .. first[r] + count[r] - 1 of each row, one row after the other.

    >>> [part.tolist() for part in flatten(np.array([7, 4]), np.array([10, 0]), np.array([2, 3]))]
    [[7, 7, 4, 4, 4], [10, 11, 0, 1, 2]]
    """
    end_R = np.cumsum(count_R)
    row_T = np.repeat(rows_R, count_R)
    return row_T, np.arange(len(row_T)) + np.repeat(first_R - end_R + count_R, count_R)
