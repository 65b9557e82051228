"""Figures from outputs and steps that are written down here."""

import pytest

from pelton.bench.simulation_summary import Summary
from pelton.core.outputs import FinishReason, RequestOutput, Timings
from pelton.core.sampling_params import SamplingParams
from pelton.core.step import NewRequest, RequestId, ScheduledRequest, SchedulerOutput

pytestmark = pytest.mark.unit


def make_new(name: str, tenant: str = "", priority: int = 0, prompt: int = 4) -> NewRequest:
    return NewRequest(
        request_id=RequestId(name),
        prompt_token_ids=(1,) * prompt,
        sampling=SamplingParams(),
        tenant=tenant,
        priority=priority,
    )


def make_step(*parts: tuple[str, int], added: tuple[NewRequest, ...] = (), repeat: int = 1) -> SchedulerOutput:
    return SchedulerOutput(
        step=0,
        added=added,
        scheduled=tuple(
            ScheduledRequest(
                request_id=RequestId(name), num_computed_tokens=0, num_scheduled_tokens=count, block_ids=()
            )
            for name, count in parts
        ),
        repeat=repeat,
    )


def say(name: str, reason: FinishReason | None = None, error_class: str = "", *, tokens: int = 1) -> RequestOutput:
    return RequestOutput(
        request_id=RequestId(name),
        token_ids=(7,) * tokens,
        finish_reason=reason,
        error_class=error_class,
        num_cached_tokens=2,
        timings=Timings(arrival_s=1.0, first_scheduled_s=1.5),
    )


def test_latencies_are_taken_from_when_tokens_come() -> None:
    summary = Summary()
    summary.come(make_new("a"), 1.0)
    for now_s in (3.0, 4.0, 6.0, 6.0):
        summary.take(say("a"), now_s)
    summary.take(say("a", "length"), 7.0)
    (row,) = summary.make_rows(10.0)
    assert (row["what"], row["requests"], row["ended_length"]) == ("all", 1, 1)
    assert (row["queue_p50_s"], row["ttft_p50_s"]) == (0.5, 2.0)
    assert sorted(summary.all.itl_s) == [1.0, 1.0, 1.0, 1.0]  # two that come together share their time
    assert (row["output_tokens_per_s"], row["cached_share"]) == (0.5, 0.5)


def test_ends_are_counted_by_tenant_and_priority() -> None:
    summary = Summary()
    for name, tenant, priority in (("a", "x", 0), ("b", "y", 1), ("c", "y", 1)):
        summary.come(make_new(name, tenant, priority), 0.0)
    summary.take(say("a", "length"), 3.0)
    summary.take(say("b", "error", "DeadlineExceeded", tokens=0), 3.0)
    summary.take(say("c", "abort", tokens=0), 3.0)
    rows = {row["what"]: row for row in summary.make_rows(3.0)}
    assert list(rows) == ["all", "tenant x", "tenant y", "priority 0", "priority 1"]
    assert (rows["tenant y"]["ended_late"], rows["tenant y"]["ended_abort"]) == (1, 1)
    assert rows["priority 0"]["requests"] == 1
    assert rows["tenant y"]["ttft_p50_s"] is None
    assert Summary().make_rows(0.0)[0]["output_tokens_per_s"] == 0.0


def test_the_service_gap_is_of_those_who_both_wait() -> None:
    summary = Summary()
    one, two, more = make_new("1", "x"), make_new("2", "y"), make_new("3", "x", prompt=9)
    summary.come(one, 0.0)
    summary.see(make_step(("1", 50), added=(one,)), 1.0)  # the other has not come
    summary.come(two, 1.0)
    summary.come(more, 1.0)
    summary.see(make_step(("1", 10)), 2.0)
    summary.see(make_step(("1", 1), repeat=3), 3.0)
    summary.take(say("1", "length", tokens=3), 3.0)
    assert summary.service_gap == 3
    summary.see(make_step(("2", 5), added=(two,)), 4.0)  # the first has had 3 more, and nobody of the other waits
    assert summary.service_gap == 3
    summary.take(say("3", "abort", tokens=0), 4.0)
    assert (summary.num_steps, summary.most_waiting, summary.longest_prompt) == (4, 2, 9)
