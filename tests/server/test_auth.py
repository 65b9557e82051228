"""Who gets in."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from tests.server.http import call, make_state, on_a_port

from pelton.server.app import DOCS_ROUTES, ROUTES

pytestmark = pytest.mark.unit


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


def test_browsers_may_call_from_allowed_origins_only() -> None:
    state = make_state(allowed_origins=("http://ok",), api_key="k")
    preflight = {"origin": "http://ok", "access-control-request-method": "POST"}
    response = call("OPTIONS", "/v1/completions", state=state, headers=preflight)
    assert response.headers["access-control-allow-origin"] == "http://ok"
    assert call("OPTIONS", "/v1/completions", headers=preflight).status_code == 403


def test_health_is_open_under_a_root_path_too() -> None:
    async def run() -> None:
        async with on_a_port(make_state(api_key="k", root_path="/llm")) as (url, _), httpx.AsyncClient() as http:
            assert (await http.get(f"{url}/health")).status_code == 200
            assert (await http.get(f"{url}/version")).status_code == 401
            assert (await http.get(f"{url}/version", headers={"authorization": "Bearer k"})).status_code == 200

    asyncio.run(run())
