"""Ids, hosts and faults at the outermost layer."""

from __future__ import annotations

from typing import Any

import pytest
from tests.api.fakes import FakeEngineClient
from tests.server.http import call, make_state

pytestmark = pytest.mark.unit


def test_a_host_header_that_is_none_is_refused() -> None:
    assert call("GET", "/config", headers={"host": "a/?b"}).status_code == 400


def test_request_ids_are_echoed_if_sane() -> None:
    assert call("GET", "/version", headers={"x-request-id": "abc-1"}).headers["x-request-id"] == "abc-1"
    odd = call("GET", "/version", headers={"x-request-id": "a b\tc"}).headers["x-request-id"]
    assert odd.isalnum()
    response = call("POST", "/v1/completions", json={"prompt": "a"}, headers={"x-request-id": "abc-1"})
    assert response.json()["id"] == "cmpl-abc-1"


def test_a_fault_of_ours_is_500_and_tells_nothing() -> None:
    def broken(_request: Any) -> list[int]:
        raise ZeroDivisionError("/secret/path")

    response = call("POST", "/v1/completions", state=make_state(FakeEngineClient(broken)), json={"prompt": "a"})
    assert response.status_code == 500
    assert response.json()["error"]["code"] == 500
    assert "secret" not in response.text
    assert response.headers["x-request-id"] in response.json()["error"]["message"]
