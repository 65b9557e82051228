"""Usage and metrics of one request."""

from __future__ import annotations

import pytest

from pelton.api.output import TextDelta
from pelton.core.outputs import EngineStats, Timings
from pelton.observability.metrics import Metrics
from pelton.server.tally import Tally

pytestmark = pytest.mark.unit


class Clock:
    """Time that passes when told to."""

    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_usage_counts_prompts_once_and_answers_all() -> None:
    tally = Tally(Metrics("m", EngineStats), [3, 4], n=2, max_tokens=9)
    for index in range(4):
        tally.add(TextDelta(index=index, token_ids=(1, 2), num_cached_tokens=index))
    assert tally.usage == {
        "prompt_tokens": 7,
        "completion_tokens": 8,
        "total_tokens": 15,
        "prompt_tokens_details": {"cached_tokens": 1 + 3},
    }


def test_durations_and_reasons_are_counted_once() -> None:
    clock, metrics = Clock(), Metrics("m", EngineStats)
    tally = Tally(metrics, [3], n=2, max_tokens=9, clock=clock)
    timings = Timings(arrival_s=1.0, first_scheduled_s=1.5, first_token_s=3.5, last_token_s=7.5)
    clock.now_s = 102.0
    tally.add(TextDelta(index=0, token_ids=(1,)))
    clock.now_s = 103.0
    tally.add(TextDelta(index=0, token_ids=(1, 2), finish_reason="stop", timings=timings))
    clock.now_s = 110.0
    tally.end("abort")
    tally.end("error")
    values = dict(line.rsplit(" ", 1) for line in metrics.render().decode().splitlines() if line[0] != "#")

    def value(name: str, **labels: str) -> float:
        joined = ",".join(f'{k}="{v}"' for k, v in sorted({"engine": "0", "model_name": "m", **labels}.items()))
        return float(values[f"pelton:{name}{{{joined}}}"])

    assert value("request_success_total", finished_reason="stop") == 1
    assert value("request_success_total", finished_reason="abort") == 1
    assert value("time_to_first_token_seconds_sum") == 2.0
    assert value("inter_token_latency_seconds_sum") == 0.5
    assert value("e2e_request_latency_seconds_sum") == 13.0
    assert value("request_queue_time_seconds_sum") == 0.5
    assert value("request_prefill_time_seconds_sum") == 2.0
    assert value("request_decode_time_seconds_sum") == 4.0
    assert value("request_generation_tokens_sum") == 3
