"""Room, and ids that cannot collide."""

from __future__ import annotations

import asyncio

import pytest
from tests.api.fakes import FakeEngineClient
from tests.server.http import in_memory, make_state

pytestmark = pytest.mark.unit


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
            client.gate.set()
            answers = [(await w).status_code for w in waiting]
            never = await http.post("/v1/completions", json={"prompt": "a", "n": 5})
            return [refused.status_code, never.status_code, *answers]

    assert asyncio.run(run()) == [503, 400, 200, 200, 200, 200]
    assert state.admission.num_live == 0
