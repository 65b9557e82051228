"""Deadlines in requests, and what becomes of them."""

import asyncio
import time

import pytest
from tests.api.fakes import FakeEngineClient
from tests.server.http import in_memory, make_state

from pelton.errors import RequestError
from pelton.server.deadline import HEADER, read_deadline

pytestmark = pytest.mark.unit


def test_the_sooner_one_holds() -> None:
    assert read_deadline(None, None, 100.0) == 0.0
    assert read_deadline("1500", None, 100.0) == 101.5
    assert read_deadline("1500", 0.5, 100.0) == 100.5
    assert read_deadline("1500", 30, 100.0) == 101.5


@pytest.mark.parametrize("header", ["", "0", "-1", "1.5", "1e3", "\u0661", "9" * 12, "x"])
def test_heads_that_make_no_sense(header: str) -> None:
    with pytest.raises(RequestError, match="expected a whole number of milliseconds") as caught:
        read_deadline(header, None, 0.0)
    assert caught.value.param == HEADER


@pytest.mark.parametrize("timeout_s", [0, -1, 1e9])
def test_bodies_that_make_no_sense(timeout_s: float) -> None:
    with pytest.raises(RequestError, match=r"^timeout: ") as caught:
        read_deadline(None, timeout_s, 0.0)
    assert caught.value.param == "timeout"


def test_the_engine_is_told() -> None:
    client = FakeEngineClient()

    async def run() -> None:
        async with in_memory(make_state(client)) as http:
            now_s = time.monotonic()
            await http.post("/v1/completions", json={"prompt": "a", "timeout": 20}, headers={HEADER: "30000"})
            await http.post("/v1/completions", json={"prompt": "a"})
            first, second = client.requests
            assert now_s + 19 < first.deadline_s < now_s + 25
            assert second.deadline_s == 0.0
            refused = await http.post("/v1/completions", json={"prompt": "a"}, headers={HEADER: "soon"})
            assert (refused.status_code, refused.json()["error"]["param"]) == (400, HEADER)

    asyncio.run(run())
