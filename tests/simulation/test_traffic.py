"""Whole days through the scheduler: everybody is answered once, nothing is left, and it is fast."""

import time
from collections import Counter, defaultdict
from statistics import median

import pytest
from tests.simulation.traffic import DAYS, Replay

pytestmark = pytest.mark.unit

MIN_STEPS_PER_S = 1000


@pytest.mark.parametrize("name", DAYS)
def test_every_request_of_the_day_ends_once_and_nothing_is_left(name: str) -> None:
    day = DAYS[name]()
    replay = Replay(day)
    limits = day.limits
    for step in replay.steps():
        num_tokens = [part.num_scheduled_tokens for part in step.scheduled]
        assert 0 < sum(num_tokens) <= limits.max_num_batched_tokens
        assert max(num_tokens) <= limits.max_prefill_chunk
        assert len(num_tokens) <= limits.max_num_requests
        if step.step % 64 == 0:
            replay.scheduler.check()
    replay.scheduler.check()
    assert replay.scheduler.pool.num_free == day.num_blocks
    ends = Counter(output.request_id for output in replay.outputs if output.finish_reason is not None)
    assert ends == {arrival.request.request_id: 1 for arrival in day.arrivals}
    hurry = {arrival.request.request_id for arrival in day.arrivals if arrival.request.deadline_s}
    for output in replay.outputs:
        is_late = output.error_class == "DeadlineExceeded" and output.request_id in hurry
        assert output.finish_reason in (None, "stop", "length", "abort") or is_late


def test_a_flood_delays_others_little() -> None:
    replay = Replay(DAYS["tenants"]())
    assert sum(step.repeat > 1 for step in replay.steps()) > 10
    tenants = {arrival.request.request_id: arrival.request.tenant for arrival in DAYS["tenants"]().arrivals}
    waits: dict[str, dict[str, float]] = defaultdict(dict)
    for output in replay.outputs:
        waits[tenants[output.request_id]][output.request_id] = (
            output.timings.first_scheduled_s - output.timings.arrival_s
        )
    middle = {tenant: median(times.values()) for tenant, times in waits.items()}
    assert max(middle["one"], middle["other"]) < middle["flood"] / 4
    assert {output.error_class for output in replay.outputs} == {"", "DeadlineExceeded"}


def test_burst_is_a_day_of_preemptions() -> None:
    replay = Replay(DAYS["burst"]())
    assert sum(1 for _ in replay.steps()) > 500
    assert replay.scheduler.num_preemptions > 20


def test_streams_do_not_pause_while_long_documents_are_read() -> None:
    """A request that only extends itself gets a token in every step, however much others have to compute."""
    replay = Replay(DAYS["long_documents"]())
    extending: set[str] = set()
    for step in replay.steps():
        scheduled = {part.request_id for part in step.scheduled}
        live = {request.request_id for request in replay.scheduler._running}
        assert replay.scheduler.num_preemptions == 0
        assert extending & live <= scheduled
        extending = {request.request_id for request in replay.scheduler._running if request.num_uncomputed_tokens == 1}


def test_a_thousand_steps_take_less_than_a_second() -> None:
    replay = Replay(DAYS["chat"]())
    started_s = time.process_time()
    num_steps = sum(1 for _ in replay.steps())
    assert num_steps / (time.process_time() - started_s) > MIN_STEPS_PER_S
