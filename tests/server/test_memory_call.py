"""Handlers without a socket answer as they do with one."""

from __future__ import annotations

import asyncio
import json

import pytest
from tests.api.fakes import ANSWER, FakeEngineClient
from tests.server.http import make_state

from pelton.server.app import make_local_app
from pelton.server.memory_call import call

pytestmark = pytest.mark.unit


def test_answers_and_errors_without_a_key() -> None:
    async def run() -> None:
        app = make_local_app(make_state(api_key="k"))
        status, body = await call(app, "POST", "/v1/completions", b'{"prompt": "a", "max_tokens": 50}')
        assert (status, json.loads(body)["choices"][0]["text"]) == (200, ANSWER)
        assert (await call(app, "POST", "/v1/completions", b"{"))[0] == 400
        assert (await call(app, "GET", "/version", b""))[0] == 200

    asyncio.run(run())


def test_cancelling_it_cancels_the_request() -> None:
    async def run() -> None:
        client = FakeEngineClient()
        client.gate = asyncio.Event()
        task = asyncio.create_task(
            call(make_local_app(make_state(client)), "POST", "/v1/completions", b'{"prompt": "a"}')
        )
        while not client.live:
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert client.live == set()

    asyncio.run(run())
