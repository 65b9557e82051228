from dataclasses import replace

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.golden_file import Golden

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


def scrape(metrics: Metrics) -> dict[str, float]:
    """Samples by name and the labels that differ."""
    families = text_string_to_metric_families(metrics.render().decode())
    samples = [sample for family in families for sample in family.samples]
    assert all(s.labels["model_name"] == "demo" and s.labels["engine"] == "0" for s in samples)
    keys = ("le", "finished_reason")
    return {" ".join([s.name, *(s.labels[k] for k in keys if k in s.labels)]): s.value for s in samples}


def test_names_are_the_ones_dashboards_use(golden: Golden):
    metrics = Metrics("demo", EngineStats, {"block_size": 32})
    metrics.count_finished(FINISHED)
    lines = metrics.render().decode().splitlines()
    names = sorted({line.split()[2] + " " + line.split()[3] for line in lines if line.startswith("# TYPE")})
    golden.check("metric_names.txt", "\n".join(names))


def test_figures_of_the_engine_are_read_at_each_scrape():
    stats = EngineStats(num_running=2, num_waiting=3, num_blocks=8, num_free_blocks=6, num_generation_tokens=7)
    metrics = Metrics("demo", lambda: stats)
    first = scrape(metrics)
    assert first["pelton:num_requests_running"] == 2
    assert first["pelton:num_requests_waiting"] == 3
    assert first["pelton:kv_cache_usage_perc"] == 0.25
    assert first["pelton:generation_tokens_total"] == 7
    stats = EngineStats(num_generation_tokens=9)
    assert scrape(metrics)["pelton:generation_tokens_total"] == 9
    assert scrape(metrics)["pelton:kv_cache_usage_perc"] == 0


def test_a_finished_request_is_counted_everywhere_once():
    metrics = Metrics("demo", EngineStats)
    metrics.count_finished(FINISHED)
    found = scrape(metrics)
    assert found["pelton:request_success_total stop"] == 1
    assert found["pelton:time_to_first_token_seconds_sum"] == 1.5
    assert found["pelton:request_time_per_output_token_seconds_sum"] == 0.5
    assert found["pelton:request_inference_time_seconds_sum"] == 3.0
    assert found["pelton:request_prompt_tokens_bucket 10.0"] == 1
    assert found["pelton:request_prompt_tokens_bucket 5.0"] == 0
    counts = {name: found[f"pelton:{name}_count"] for name in HISTOGRAMS}
    assert counts.pop("inter_token_latency_seconds") == 0
    assert set(counts.values()) == {1}


def test_what_did_not_happen_is_not_counted():
    metrics = Metrics("demo", EngineStats)
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
    found = scrape(metrics)
    for name in ("time_to_first_token_seconds", "request_queue_time_seconds", "request_inference_time_seconds"):
        assert found[f"pelton:{name}_count"] == 0
    assert found["pelton:request_time_per_output_token_seconds_count"] == 0
    assert found["pelton:request_success_total abort"] == 1


def test_time_between_tokens():
    metrics = Metrics("demo", EngineStats)
    metrics.observe_inter_token(0.02)
    metrics.observe_inter_token(0.03)
    assert scrape(metrics)["pelton:inter_token_latency_seconds_count"] == 2
