"""Counts of the server and figures of the engine in one scrape."""

import pytest
from tests.observability.exposition import read_samples

from pelton.core.outputs import EngineStats
from pelton.observability import bucket
from pelton.observability.metrics import Metrics

pytestmark = pytest.mark.unit


def make_metrics(stats: EngineStats | None = None) -> Metrics:
    """Metrics with one answer that lives."""
    metrics = Metrics("demo", lambda: stats or EngineStats(), {"block_size": 32})
    metrics.ledger.receive()
    return metrics


def test_figures_of_the_engine_are_read_at_each_scrape():
    stats = EngineStats(num_blocks=8, num_free_blocks=6, num_generation_tokens=7, num_restarts=2)
    metrics = Metrics("demo", lambda: stats)
    first = read_samples(metrics)
    assert first["kv_cache_usage_perc"] == 0.25
    assert first["generation_tokens_total"] == 7
    assert first["engine_restarts_total"] == 2
    assert first["engine_up"] == 1
    stats = EngineStats(num_generation_tokens=9, is_up=False)
    second = read_samples(metrics)
    assert second["generation_tokens_total"] == 9
    assert second["kv_cache_usage_perc"] == 0
    assert second["engine_up"] == 0


def test_steps_by_their_tokens():
    counts = [0] * (len(bucket.STEP_TOKENS) + 1)
    for num_tokens, times in ((1, 3), (300, 1), (99999, 1)):
        bucket.count_into(counts, bucket.STEP_TOKENS, num_tokens, times)
    samples = read_samples(make_metrics(EngineStats(step_tokens=tuple(counts), num_step_tokens=100302)))
    assert samples["iteration_tokens_total_bucket 1.0"] == 3
    assert samples["iteration_tokens_total_bucket 256.0"] == 3
    assert samples["iteration_tokens_total_bucket 512.0"] == 4
    assert samples["iteration_tokens_total_bucket +Inf"] == 5
    assert samples["iteration_tokens_total_count"] == 5
    assert samples["iteration_tokens_total_sum"] == 100302


def test_every_series_is_there_before_the_first_request():
    samples = read_samples(Metrics("demo", EngineStats))
    for reason in ("stop", "length", "abort", "deadline", "error"):
        assert samples[f"request_success_total {reason}"] == 0
    assert samples["requests_received_total"] == 0
    assert samples["iteration_tokens_total_count"] == 0


def test_answers_run_or_wait_as_the_engine_says():
    metrics = make_metrics(EngineStats(num_running=1, num_waiting=9))
    metrics.ledger.receive(2)
    samples = read_samples(metrics)
    assert (samples["num_requests_running"], samples["num_requests_waiting"]) == (1, 2)
    for _ in range(3):
        metrics.ledger.finish("abort")
    samples = read_samples(metrics)  # the engine's figures are of before
    assert (samples["num_requests_running"], samples["num_requests_waiting"]) == (0, 0)


def test_what_is_refused_and_how_far_the_server_stepped_back():
    metrics = make_metrics()
    metrics.ledger.refuse(1, "reserve", 429, "a")
    metrics.set_overload_level(3)
    samples = read_samples(metrics)
    assert samples["requests_refused_total reserve 429"] == 1
    assert samples["overload_level"] == 3


def test_http_requests_are_in_progress_or_answered():
    metrics = make_metrics()
    metrics.http.begin()
    metrics.http.begin()
    metrics.http.end("/health", 200)
    samples = read_samples(metrics)
    assert samples["http_requests_received_total"] == 2
    assert samples["http_requests_in_progress"] == 1
    assert samples["http_requests_total /health 200"] == 1
