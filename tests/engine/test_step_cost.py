"""What a step may cost, from what others did."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pelton.core.step import BlockId, RequestId, ScheduledRequest
from pelton.engine.step_cost import CONTEXT_OF_A_TOKEN, ENOUGH_STEPS, TIMES_EXPECTED, StepCosts, measure_work

pytestmark = pytest.mark.unit


def schedule(num_computed: int, num_scheduled: int) -> ScheduledRequest:
    return ScheduledRequest(
        request_id=RequestId("a"),
        num_scheduled_tokens=num_scheduled,
        num_computed_tokens=num_computed,
        block_ids=(BlockId(0),),
    )


def test_work_counts_tokens_repeats_and_what_they_read() -> None:
    assert measure_work([], 1) == 1
    assert measure_work([schedule(10, 1)], 1) == 2
    assert measure_work([schedule(10, 1)], 4) == 5
    assert measure_work([schedule(0, 512)], 1) == 1 + 512 + 512 * 512 // CONTEXT_OF_A_TOKEN
    assert measure_work([schedule(9 * CONTEXT_OF_A_TOKEN - 1, 1)], 1) == 11


def test_nothing_is_said_before_enough_is_known() -> None:
    costs = StepCosts()
    for _ in range(ENOUGH_STEPS - 1):
        costs.add(1, 0.1)
    assert costs.find_limit(1) is None
    costs.add(1, 0.0)
    assert costs.find_limit(1) == pytest.approx(TIMES_EXPECTED * 0.1)


def test_a_prefill_after_decode_steps_may_take_in_proportion_until_one_is_known() -> None:
    costs = StepCosts()
    for _ in range(ENOUGH_STEPS):
        costs.add(2, 0.6)
    assert costs.find_limit(576) == pytest.approx(TIMES_EXPECTED * 0.6 * 576 / 2)
    costs.add(576, 20.0)
    assert costs.find_limit(576) == pytest.approx(TIMES_EXPECTED * 20.0 * 576 / 512)
    assert costs.find_limit(2) == pytest.approx(TIMES_EXPECTED * 0.6)


@given(st.lists(st.integers(1, 1 << 20), min_size=ENOUGH_STEPS), st.floats(0.001, 1.0), st.floats(0.0, 50.0))
def test_a_machine_with_a_base_cost_and_a_cost_per_token_is_never_suspected(
    works: list[int], per_token_s: float, base_s: float
) -> None:
    costs = StepCosts()
    for work in works:
        limit_s, cpu_s = costs.find_limit(work), base_s + per_token_s * work
        assert limit_s is None or cpu_s < limit_s
        costs.add(work, cpu_s)
