"""Usage, times and counts of one request, and the law that all counts obey after every event."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack, suppress

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule
from tests.observability.exposition import read_samples

from pelton.api.output import TextDelta
from pelton.core.outputs import CacheMiss, EngineStats, FinishReason, Timings
from pelton.errors import CapacityError, DeadlineExceeded, InternalError, RequestError
from pelton.observability.metrics import Metrics
from pelton.server.tally import Tally

pytestmark = pytest.mark.unit
TIMINGS = Timings(arrival_s=1.0, first_scheduled_s=1.5, first_token_s=3.5, last_token_s=7.5, num_preemptions=2)


class Clock:
    """Time that passes when told to."""

    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def begun(metrics: Metrics, prompts: list[int], n: int, max_tokens: int | None = 9, **more: object) -> Tally:
    tally = Tally(metrics, len(prompts) * n, **more)  # type: ignore[arg-type]
    tally.__enter__()
    tally.begin(prompts, n=n, max_tokens=max_tokens)
    return tally


def test_usage_counts_prompts_once_and_answers_all() -> None:
    tally = begun(Metrics("m", EngineStats), [3, 4], 2)
    for index in range(4):
        tally.add(TextDelta(index=index, token_ids=(1, 2), num_cached_tokens=index))
    assert tally.usage == {
        "prompt_tokens": 7,
        "completion_tokens": 8,
        "total_tokens": 15,
        "prompt_tokens_details": {"cached_tokens": 0 + 2},
    }


def test_usage_explains_what_the_cache_did_not_have() -> None:
    tally = begun(Metrics("m", EngineStats), [3, 4], 2)
    for index, miss in ((2, CacheMiss("new", 0)), (0, CacheMiss("evicted", 5)), (1, CacheMiss("hit", 2))):
        tally.add(TextDelta(index=index, cache_miss=miss))
    assert tally.usage["prompt_tokens_details"]["cache_misses"] == [
        {"prompt": 0, "reason": "evicted", "position": 5},
        {"prompt": 1, "reason": "new", "position": 0},
    ]


def test_what_a_later_engine_finds_in_its_cache_was_not_saved() -> None:
    tally = begun(Metrics("m", EngineStats), [100], 1)
    tally.add(TextDelta(index=0, token_ids=(1,), num_cached_tokens=10))
    tally.add(TextDelta(index=0, token_ids=(1,), num_cached_tokens=99, timings=Timings(num_restarts=1)))
    assert tally.usage["prompt_tokens_details"] == {"cached_tokens": 10}


def test_durations_and_reasons_are_counted_once() -> None:
    clock, metrics = Clock(), Metrics("m", EngineStats)
    tally = begun(metrics, [3], 2, clock=clock)
    clock.now_s = 102.0
    tally.add(TextDelta(index=0, token_ids=(1,)))
    clock.now_s = 103.0
    tally.add(TextDelta(index=0, token_ids=(1, 2), finish_reason="stop", timings=TIMINGS))
    assert not tally.is_done
    clock.now_s = 110.0
    tally.__exit__(None, asyncio.CancelledError(), None)
    assert tally.is_done
    samples = read_samples(metrics)
    assert samples["request_success_total stop"] == 1
    assert samples["request_success_total abort"] == 1
    assert samples["time_to_first_token_seconds_sum"] == 2.0
    assert samples["inter_token_latency_seconds_sum"] == 0.5
    assert samples["e2e_request_latency_seconds_sum"] == 13.0
    assert samples["request_queue_time_seconds_sum"] == 0.5
    assert samples["request_prefill_time_seconds_sum"] == 2.0
    assert samples["request_decode_time_seconds_sum"] == 4.0
    assert samples["request_generation_tokens_sum"] == 3
    assert samples["tenant_prompt_tokens_total default"] == 3
    assert samples["tenant_generation_tokens_total default"] == 3


def test_timings_say_where_the_time_went() -> None:
    tally = begun(Metrics("m", EngineStats), [10], 1)
    assert tally.timings["queue_ms"] is None
    tally.add(TextDelta(index=0, token_ids=(1,) * 9, num_cached_tokens=4, timings=TIMINGS))
    assert tally.timings == {
        "queue_ms": 500.0,
        "prefill_ms": 2000.0,
        "decode_ms": 4000.0,
        "prompt_tokens": 10,
        "cached_tokens": 4,
        "completion_tokens": 9,
        "prompt_tokens_per_second": 3.0,
        "completion_tokens_per_second": 2.0,
        "num_preemptions": 2,
        "num_restarts": 0,
    }


def test_the_log_has_counts_times_and_reasons() -> None:
    tally = begun(Metrics("m", EngineStats), [10], 2)
    tally.add(TextDelta(index=1, token_ids=(1,) * 9, finish_reason="stop", timings=TIMINGS))
    tally.__exit__(None, DeadlineExceeded("late"), None)
    assert tally.log_fields() == {
        "prompt_tokens": 10,
        "cached_tokens": 0,
        "completion_tokens": 9,
        "finish_reason": "deadline,stop",
        "queue_s": 0.5,
        "prefill_s": 2.0,
        "decode_s": 4.0,
        "preemptions": 2,
    }


@pytest.mark.parametrize(
    ("error", "where", "sample"),
    [
        (CapacityError("full"), "reserve", "requests_refused_total reserve 503"),
        (DeadlineExceeded("late"), "reserve", "requests_refused_total reserve 504"),
        (RequestError("no"), "engine", "requests_refused_total engine 400"),
        (DeadlineExceeded("late"), "engine", "request_success_total deadline"),
        (DeadlineExceeded("late"), "tokens", "request_success_total deadline"),
        (CapacityError("gone"), "tokens", "request_success_total error"),
        (InternalError("ours"), "engine", "request_success_total error"),
        (ZeroDivisionError(), "reserve", "request_success_total error"),
        (GeneratorExit(), "reserve", "request_success_total abort"),
        (asyncio.CancelledError(), "tokens", "request_success_total abort"),
        (None, "tokens", "request_success_total error"),
    ],
)
def test_how_a_request_ends(error: BaseException | None, where: str, sample: str) -> None:
    metrics = Metrics("m", EngineStats)
    tally = Tally(metrics, 3)
    tally.__enter__()
    if where != "reserve":
        tally.begin([5], n=3, max_tokens=None)
    if where == "tokens":
        tally.add(TextDelta(index=0, token_ids=(1,)))
    tally.__exit__(None, error, None)
    metrics.ledger.check()
    samples = read_samples(metrics)
    assert samples[sample] == 3
    late = 3 if isinstance(error, DeadlineExceeded) else 0
    assert samples["deadlines_exceeded_total"] == late


class Lives(RuleBasedStateMachine):
    """Requests of several tenants live and end in every way there is; each scrape must balance."""

    tallies: Bundle[tuple[Tally, ExitStack, int]] = Bundle("tallies")

    def __init__(self) -> None:
        super().__init__()
        self.num_running = 0
        self.metrics = Metrics("m", lambda: EngineStats(num_running=self.num_running))
        self.num_tokens = 0
        self.before: dict[str, float] = {}

    @rule(target=tallies, num_prompts=st.integers(1, 3), n=st.integers(1, 3), tenant=st.sampled_from(["", "a", "b"]))
    def open(self, num_prompts: int, n: int, tenant: str) -> tuple[Tally, ExitStack, int]:
        stack = ExitStack()
        tally = stack.enter_context(Tally(self.metrics, num_prompts * n, tenant=tenant))
        return tally, stack, num_prompts

    @rule(target=tallies, opened=consumes(tallies))
    def begin(self, opened: tuple[Tally, ExitStack, int]) -> tuple[Tally, ExitStack, int]:
        tally, _, num_prompts = opened
        if tally.stage != "engine":
            tally.begin([7] * num_prompts, n=len(tally.finish_reasons) // num_prompts, max_tokens=4)
        return opened

    @rule(
        opened=tallies,
        index=st.integers(0, 8),
        num_tokens=st.integers(0, 3),
        reason=st.sampled_from([None, None, "stop", "length", "abort"]),
    )
    def add(
        self, opened: tuple[Tally, ExitStack, int], index: int, num_tokens: int, reason: FinishReason | None
    ) -> None:
        tally = opened[0]
        index %= len(tally.finish_reasons)
        if tally.stage == "engine" and not tally.finish_reasons[index]:
            tally.add(TextDelta(index=index, token_ids=(1,) * num_tokens, finish_reason=reason, timings=TIMINGS))
            self.num_tokens += num_tokens

    @rule(
        opened=consumes(tallies),
        error=st.sampled_from(
            [None, CapacityError, DeadlineExceeded, RequestError, InternalError, ValueError, GeneratorExit]
        ),
    )
    def end(self, opened: tuple[Tally, ExitStack, int], error: type[BaseException] | None) -> None:
        stack = opened[1]
        with suppress(BaseException), stack:
            if error is not None:
                raise error("ended")

    @rule(count=st.integers(0, 30))
    def step(self, count: int) -> None:
        self.num_running = count

    @invariant()
    def the_law_holds(self) -> None:
        self.metrics.ledger.check()
        samples = read_samples(self.metrics)
        check_law(samples)
        counters = {name: value for name, value in samples.items() if "_total" in name}
        assert all(value >= self.before.get(name, 0) for name, value in counters.items()), "a counter went back"
        self.before = counters

    def teardown(self) -> None:
        assert self.num_tokens >= sum(v for k, v in self.before.items() if k.startswith("tenant_generation_tokens"))


def check_law(samples: dict[str, float]) -> None:
    """Every answer that was asked for is in one place."""

    def total(name: str) -> float:
        return sum(value for key, value in samples.items() if key.split(" ")[0] == name)

    live = total("num_requests_running") + total("num_requests_waiting")
    ended = total("request_success_total") + total("requests_refused_total")
    assert total("requests_received_total") == live + ended
    assert total("tenant_requests_live") == live
    assert total("tenant_requests_received_total") == total("requests_received_total")
    assert total("e2e_request_latency_seconds_count") == total("request_success_total")


TestLives = Lives.TestCase
TestLives.settings = settings(
    max_examples=12, stateful_step_count=20, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
