"""Steps by hand, and the logits of a text however it is cut."""

import numpy as np
import pytest
from tests.steps import LIMITS, program
from tests.tiny_plans import VOCAB, tiny_plan

from pelton.backends.reference import ReferenceBackend
from pelton.runner.direct_step import greedy_inputs, logits_of, step_of

pytestmark = pytest.mark.unit


def test_tokens_of_requests_are_neighbours() -> None:
    step = step_of([([5, 6, 7], 0, [3]), ([8], 20, [1, 0])], max_blocks=3)
    assert step.token_ids_T.tolist() == [5, 6, 7, 8]
    assert step.positions_T.tolist() == [0, 1, 2, 20]
    assert step.query_start_R1.tolist() == [0, 3, 4]
    assert step.context_len_R.tolist() == [3, 21]
    assert step.block_table_RM.tolist() == [[3, -1, -1], [1, 0, -1]]
    assert step.logits_index_S.tolist() == [0, 1, 2, 3]
    assert step.sampling.position_S.tolist() == [1, 2, 3, 21]


def test_greedy_inputs_ask_for_nothing_else() -> None:
    sampling = greedy_inputs(2, np.array([4, 5], np.int32))
    assert sampling.temperature_S.tolist() == [0, 0]
    assert sampling.top_p_S.tolist() == sampling.repetition_S.tolist() == [1, 1]
    assert sampling.num_logprobs_S.tolist() == [-1, -1]
    assert sampling.history_start_S1.tolist() == sampling.bias_start_S1.tolist() == [0, 0, 0]
    assert sampling.seed_S.dtype == np.uint64
    assert sampling.position_S.dtype == np.int64


@pytest.mark.parametrize("chunk", [1, 7, 16])
def test_logits_do_not_depend_on_the_chunk(chunk: int) -> None:
    tiny = tiny_plan("llama_like")
    executable = program(ReferenceBackend("float64"), tiny.plan, tiny.weights)
    ids, max_blocks = [(7 * i) % VOCAB for i in range(20)], LIMITS.max_blocks_per_request
    whole = logits_of(executable, ids, [0, 1], chunk=64, max_blocks=max_blocks)
    assert whole.shape == (20, VOCAB)
    pieces = logits_of(executable, ids, [5, 2], chunk=chunk, max_blocks=max_blocks)
    np.testing.assert_allclose(pieces, whole, rtol=1e-5, atol=1e-5)
