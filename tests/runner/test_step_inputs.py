"""A step's arrays against what one request after the other would give."""

import numpy as np
import pytest
from tests.engine.fakes import make_request

from pelton.core.step import BlockId, RequestId, ScheduledRequest
from pelton.runner.request_table import RequestTable
from pelton.runner.step_inputs import make_step_inputs

pytestmark = pytest.mark.unit


def part(name: str, computed: int, scheduled: int, *block_ids: int) -> ScheduledRequest:
    return ScheduledRequest(
        request_id=RequestId(name),
        num_computed_tokens=computed,
        num_scheduled_tokens=scheduled,
        block_ids=tuple(map(BlockId, block_ids)),
    )


def make_table(*requests: object) -> RequestTable:
    table = RequestTable(8, 64, 4, 1000, server_seed=1)
    for request in requests:
        table.add(request)  # type: ignore[arg-type]
    return table


def test_chunks_and_single_tokens_in_one_step() -> None:
    table = make_table(
        make_request("chunk", list(range(100, 120))),
        make_request("end", [1, 2, 3]),
        make_request("one", [7, 8], outputs=(9,)),
    )
    step = make_step_inputs(table, (part("one", 2, 1, 5), part("chunk", 4, 6, 0, 1, 2), part("end", 0, 3, 4)))
    inputs = step.inputs
    assert inputs.token_ids_T.tolist() == [9, *range(104, 110), 1, 2, 3]
    assert inputs.positions_T.tolist() == [2, 4, 5, 6, 7, 8, 9, 0, 1, 2]
    assert inputs.query_start_R1.tolist() == [0, 1, 7, 10]
    assert inputs.context_len_R.tolist() == [3, 10, 3]
    assert inputs.block_table_RM.tolist() == [[5, -1, -1, -1], [0, 1, 2, -1], [4, -1, -1, -1]]
    assert inputs.logits_index_S.tolist() == [0, 9]  # the middle of a prompt wants none
    assert step.request_index_S.tolist() == [0, 2]
    assert inputs.sampling.position_S.tolist() == [3, 3]


def test_step_without_logits() -> None:
    table = make_table(make_request("a", 20))
    inputs = make_step_inputs(table, (part("a", 0, 8, 1, 2),)).inputs
    assert inputs.logits_index_S.tolist() == []
    assert inputs.sampling.history_start_S1.tolist() == [0]
    assert inputs.sampling.bias_start_S1.tolist() == [0]


def test_sampling_columns() -> None:
    table = make_table(
        make_request("a", [1], seed=2**64 - 1, top_k=-1, top_p=0.5, min_p=0.25, logprobs=3),
        make_request("b", [1]),
    )
    sampling = make_step_inputs(table, (part("b", 0, 1, 1), part("a", 0, 1, 2))).inputs.sampling
    assert sampling.seed_S[1] == 2**64 - 1
    assert sampling.top_k_S.tolist() == [0, 0]
    assert sampling.top_p_S.tolist() == [1.0, 0.5]
    assert sampling.min_p_S.tolist() == [0.0, 0.25]
    assert sampling.num_logprobs_S.tolist() == [-1, 3]


def test_history_is_there_for_penalties_only() -> None:
    table = make_table(
        make_request("plain", [1, 2]),
        make_request("pen", [3, 4], outputs=(5,), repetition_penalty=1.5),
        make_request("pen2", [6], frequency_penalty=1.0),
    )
    sampling = make_step_inputs(
        table, (part("plain", 0, 2, 1), part("pen", 0, 3, 2), part("pen2", 0, 1, 3))
    ).inputs.sampling
    assert sampling.history_ids.tolist() == [3, 4, 5, 6]
    assert sampling.history_start_S1.tolist() == [0, 0, 3, 4]
    assert sampling.history_num_prompt_S.tolist() == [0, 2, 1]


def test_bans_hold_until_min_tokens_outputs_and_biases_stay() -> None:
    request = make_request("a", [1], 9, eos=(7, 5000), logit_bias={4: 2.0, 7: 1.0}, min_tokens=2)
    table = make_table(make_request("b", [1], logit_bias={}), request)
    row = np.array([table.gather_rows((part("a", 0, 1, 0),))[0]])
    seen = []
    for computed in range(3):
        step = (part("b", 0, 1, 1), part("a", computed, 1, 0))
        sampling = make_step_inputs(table, step).inputs.sampling
        assert sampling.bias_start_S1.tolist() == [0, 0, 2]
        seen.append((sampling.bias_ids.tolist(), sampling.bias_values.tolist()))
        table.append(row, np.array([3], np.int32))
    assert seen == [([4, 7], [2.0, -np.inf]), ([4, 7], [2.0, -np.inf]), ([4, 7], [2.0, 1.0])]
