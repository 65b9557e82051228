"""Health, readiness, models, settings and metrics."""

from __future__ import annotations

import asyncio

import pytest
from tests.api.fakes import FakeEngineClient
from tests.server.http import call, in_memory, make_state

pytestmark = pytest.mark.unit


def test_health_and_readiness_follow_the_engine_and_the_drain() -> None:
    client = FakeEngineClient()
    state = make_state(client)
    assert (call("GET", "/health", state=state).status_code, call("GET", "/ready", state=state).status_code) == (
        200,
        200,
    )
    state.admission.is_draining = True
    assert (call("GET", "/health", state=state).status_code, call("GET", "/ready", state=state).status_code) == (
        200,
        503,
    )
    client.problem = "no step for 30 s"
    response = call("GET", "/health", state=state)
    assert (response.status_code, response.json()["reason"]) == (503, "no step for 30 s")


def test_models() -> None:
    listed = call("GET", "/v1/models").json()["data"]
    assert [(m["id"], m["max_model_len"]) for m in listed] == [("tiny", 200), ("alias", 200)]
    assert call("GET", "/v1/models/alias").json()["id"] == "alias"
    assert call("GET", "/v1/models/org/other").status_code == 404


def test_config_shows_reasons_and_no_secret() -> None:
    state = make_state(api_key="s3cret")
    response = call("GET", "/config", state=state, headers={"authorization": "Bearer s3cret"})
    assert response.json()["server"]["api_key"]["value"] == "(set)"
    assert "s3cret" not in response.text


def test_metrics_count_what_was_answered() -> None:
    state = make_state()

    async def run() -> str:
        async with in_memory(state) as http:
            await http.post("/v1/completions", json={"prompt": "a", "n": 2, "max_tokens": 3})
            return (await http.get("/metrics")).text

    text = asyncio.run(run())
    assert 'pelton:request_success_total{engine="0",finished_reason="length",model_name="tiny"} 2.0' in text
    assert 'pelton:kv_cache_usage_perc{engine="0",model_name="tiny"} 0.25' in text
    assert 'pelton:request_generation_tokens_sum{engine="0",model_name="tiny"} 6.0' in text
