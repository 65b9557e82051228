"""What a scrape shows of requests and of the engine."""

from dataclasses import replace

import pytest
from tests.golden_file import Golden
from tests.observability.exposition import read_samples

from pelton.core.outputs import EngineStats
from pelton.observability.metrics import HISTOGRAMS, FinishedRequest, Metrics

pytestmark = pytest.mark.unit

FINISHED = FinishedRequest(
    finished_reason="stop",
    num_prompt_tokens=10,
    num_output_tokens=5,
    e2e_s=3.5,
    time_to_first_token_s=1.5,
    queue_s=0.5,
    prefill_s=1.0,
    decode_s=2.0,
    n=1,
    max_tokens=16,
)


def make_metrics(stats: EngineStats | None = None) -> Metrics:
    """Metrics with one answer that lives."""
    metrics = Metrics("demo", lambda: stats or EngineStats(), {"block_size": 32})
    metrics.ledger.receive()
    return metrics


def test_names_are_the_ones_dashboards_use(golden: Golden):
    lines = make_metrics().render().decode().splitlines()
    names = sorted({line.split()[2] + " " + line.split()[3] for line in lines if line.startswith("# TYPE")})
    golden.check("metric_names.txt", "\n".join(names))


def test_a_finished_request_is_counted_everywhere_once():
    metrics = make_metrics()
    metrics.count_finished(FINISHED)
    metrics.ledger.check()
    found = read_samples(metrics)
    assert found["request_success_total stop"] == 1
    assert found["time_to_first_token_seconds_sum"] == 1.5
    assert found["request_time_per_output_token_seconds_sum"] == 0.5
    assert found["request_inference_time_seconds_sum"] == 3.0
    assert found["request_prompt_tokens_bucket 10.0"] == 1
    assert found["request_prompt_tokens_bucket 5.0"] == 0
    counts = {name: found[f"{name}_count"] for name in HISTOGRAMS}
    assert counts.pop("inter_token_latency_seconds") == 0
    assert set(counts.values()) == {1}


def test_what_did_not_happen_is_not_counted():
    metrics = make_metrics()
    metrics.count_finished(
        replace(
            FINISHED,
            finished_reason="abort",
            num_output_tokens=1,
            time_to_first_token_s=None,
            queue_s=None,
            prefill_s=None,
            max_tokens=None,
        )
    )
    found = read_samples(metrics)
    for name in ("time_to_first_token_seconds", "request_queue_time_seconds", "request_inference_time_seconds"):
        assert found[f"{name}_count"] == 0
    assert found["request_time_per_output_token_seconds_count"] == 0
    assert found["request_success_total abort"] == 1


def test_time_between_tokens():
    metrics = make_metrics()
    metrics.observe_inter_token(0.02)
    metrics.observe_inter_token(0.03)
    assert read_samples(metrics)["inter_token_latency_seconds_count"] == 2
