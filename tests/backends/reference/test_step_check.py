"""A right step passes; each way to be wrong is named."""

from dataclasses import replace

import numpy as np
import pytest
from tests.steps import LIMITS, NUM_BLOCKS, sampling_inputs, step

from pelton.backends.reference.step_check import check_step

pytestmark = pytest.mark.unit

RIGHT = step([([5, 6, 7], 14), ([8], 0)], logits_index=[2, 3])


def int32(*numbers):
    return np.array(numbers, np.int32)


def test_a_right_step_passes():
    check_step(RIGHT, LIMITS, NUM_BLOCKS)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"positions_T": int32(14, 15, 17, 0)}, r"positions \[14 15 17\] are not the end of 17"),
        ({"positions_T": int32(14, 15, 16)}, "one position per token"),
        ({"context_len_R": int32(18, 1)}, "not the end of 18"),
        ({"query_start_R1": int32(1, 3, 4)}, "starts at token 0"),
        ({"query_start_R1": int32(0, 3, 5)}, "own all tokens"),
        ({"query_start_R1": int32(0, 5, 4)}, "follow one another"),
        ({"query_start_R1": int32(0, 4)}, "one start per request"),
        ({"block_table_RM": RIGHT.block_table_RM[:1]}, "one block table per request"),
        ({"block_table_RM": np.full((2, 8), 64, np.int32)}, "not below 64"),
        ({"block_table_RM": np.full((2, 9), 1, np.int32)}, "block table exceeds"),
        ({"logits_index_S": int32(3, 2)}, "ascend"),
        ({"logits_index_S": int32(2, 4)}, "are tokens of the step"),
        ({"sampling": sampling_inputs(3)}, "2 rows are sampled"),
        ({"sampling": replace(sampling_inputs(2), bias_start_S1=int32(0, 1))}, "one start per row"),
        ({"sampling": replace(sampling_inputs(2), history_start_S1=int32(0, 1, 0))}, "rows of ragged arrays"),
        ({"sampling": replace(sampling_inputs(2), history_start_S1=int32(0, 0, 1))}, "ends within"),
        ({"sampling": replace(sampling_inputs(2), num_logprobs_S=int32(0))}, "num_logprobs_S"),
        ({"sampling": replace(sampling_inputs(2), history_num_prompt_S=int32(0))}, "history_num_prompt_S"),
    ],
)
def test_what_is_wrong_is_named(change, message):
    with pytest.raises(AssertionError, match=message):
        check_step(replace(RIGHT, **change), LIMITS, NUM_BLOCKS)


@pytest.mark.parametrize(
    ("limit", "message"),
    [
        ({"max_num_batched_tokens": 3}, "4 tokens exceed"),
        ({"max_num_requests": 1}, "2 requests exceed"),
        ({"max_num_logits_rows": 1}, "2 rows with logits exceed"),
    ],
)
def test_limits(limit, message):
    with pytest.raises(AssertionError, match=message):
        check_step(RIGHT, replace(LIMITS, **limit), NUM_BLOCKS)
