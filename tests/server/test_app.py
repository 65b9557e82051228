"""Routes, probes, keys, ids and documents of the whole application."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.api.fakes import FakeEngineClient
from tests.server.http import in_memory, make_state

from pelton.server.app import DOCS_ROUTES, ROUTES

pytestmark = pytest.mark.unit


def call(method: str, path: str, *, state: Any = None, headers: dict[str, str] | None = None, **more: Any) -> Any:
    """The response to one request."""

    async def run() -> Any:
        async with in_memory(state or make_state()) as http:
            return await http.request(method, path, headers=headers, **more)

    return asyncio.run(run())


def test_unknown_paths_and_methods_have_openai_errors() -> None:
    for method, path, status in (
        ("GET", "/nothing", 404),
        ("DELETE", "/v1/completions", 405),
        ("POST", "/health", 405),
    ):
        response = call(method, path)
        assert response.status_code == status
        assert set(response.json()["error"]) == {"message", "type", "param", "code"}
        assert path in response.json()["error"]["message"]


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


@pytest.mark.parametrize("row", [row for row in (*ROUTES, *DOCS_ROUTES) if row.path != "/health"], ids=lambda r: r.path)
def test_every_route_but_health_asks_for_the_key(row: Any) -> None:
    state = make_state(api_key="s3cret")
    for authorization in (None, "s3cret", "Bearer", "Bearer s3cre", "Bearer s3cret2", "Basic s3cret"):
        headers = {} if authorization is None else {"authorization": authorization}
        response = call(row.method, row.path.replace("{model:path}", "tiny"), state=state, headers=headers)
        assert response.status_code == 401, authorization
        assert response.json()["error"]["code"] == "invalid_api_key"
    assert call(row.method, row.path, state=state, headers={"authorization": "bearer s3cret"}).status_code != 401


@pytest.mark.parametrize("path", ["/health/", "//health", "/Health", "/health%2f..", "/nothing", "/health?x=/", "/"])
def test_health_alone_is_open(path: str) -> None:
    status = call("GET", path, state=make_state(api_key="k")).status_code
    assert status == (200 if path == "/health?x=/" else 401)


def test_a_host_header_that_is_none_is_refused() -> None:
    assert call("GET", "/config", headers={"host": "a/?b"}).status_code == 400


def test_request_ids_are_echoed_if_sane() -> None:
    assert call("GET", "/version", headers={"x-request-id": "abc-1"}).headers["x-request-id"] == "abc-1"
    odd = call("GET", "/version", headers={"x-request-id": "a b\tc"}).headers["x-request-id"]
    assert odd.isalnum()
    response = call("POST", "/v1/completions", json={"prompt": "a"}, headers={"x-request-id": "abc-1"})
    assert response.json()["id"] == "cmpl-abc-1"


def test_two_requests_may_have_the_same_id() -> None:
    client = FakeEngineClient()
    state = make_state(client)

    async def run() -> list[int]:
        async with in_memory(state) as http:
            body = {"prompt": "a", "request_id": "same"}
            return [
                r.status_code for r in await asyncio.gather(*(http.post("/v1/completions", json=body) for _ in "ab"))
            ]

    assert asyncio.run(run()) == [200, 200]
    assert len({r.request_id for r in client.requests}) == 2


def test_more_requests_than_there_is_room_for_are_503() -> None:
    client = FakeEngineClient()
    state = make_state(client, max_num_queued_requests=0)

    async def run() -> list[int]:
        client.gate = asyncio.Event()
        async with in_memory(state) as http:
            waiting = [asyncio.create_task(http.post("/v1/completions", json={"prompt": "a"})) for _ in range(4)]
            while len(client.live) < 4:
                await asyncio.sleep(0)
            refused = await http.post("/v1/completions", json={"prompt": "a"})
            assert refused.headers["retry-after"] == "1"
            assert refused.json()["error"]["type"] == "overloaded_error"
            never = await http.post("/v1/completions", json={"prompt": "a", "n": 5})
            client.gate.set()
            return [refused.status_code, never.status_code, *[(await w).status_code for w in waiting]]

    assert asyncio.run(run()) == [503, 400, 200, 200, 200, 200]
    assert state.admission.num_live == 0


def test_a_fault_of_ours_is_500_and_tells_nothing() -> None:
    def broken(_request: Any) -> list[int]:
        raise ZeroDivisionError("/secret/path")

    response = call("POST", "/v1/completions", state=make_state(FakeEngineClient(broken)), json={"prompt": "a"})
    assert response.status_code == 500
    assert response.json()["error"]["code"] == 500
    assert "secret" not in response.text
    assert response.headers["x-request-id"] in response.json()["error"]["message"]


def test_browsers_may_call_from_allowed_origins_only() -> None:
    state = make_state(allowed_origins=("http://ok",), api_key="k")
    preflight = {"origin": "http://ok", "access-control-request-method": "POST"}
    response = call("OPTIONS", "/v1/completions", state=state, headers=preflight)
    assert response.headers["access-control-allow-origin"] == "http://ok"
    assert call("OPTIONS", "/v1/completions", headers=preflight).status_code == 405
