"""HTTP clients for tests: to the application itself, and to a real server on a free port."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
from tests.api.fakes import FakeEngineClient, make_parts

from pelton.api.text_engine import TextEngine
from pelton.server.app import make_app
from pelton.server.lifecycle import Server
from pelton.server.listen import bind_socket, describe_address
from pelton.server.state import ServerState


def make_state(client: FakeEngineClient | None = None, **settings: Any) -> ServerState:
    """A server's state around a fake engine."""
    return ServerState.make(TextEngine(make_parts(client, **settings)))


@asynccontextmanager
async def in_memory(state: ServerState, **headers: str) -> AsyncIterator[httpx.AsyncClient]:
    """A client that calls the application directly. It cannot disconnect."""
    transport = httpx.ASGITransport(app=make_app(state))
    async with httpx.AsyncClient(transport=transport, base_url="http://test", headers=headers) as client:
        yield client
    state.engine.close()


@asynccontextmanager
async def on_a_port(state: ServerState) -> AsyncIterator[tuple[str, Server]]:
    """A running server and its URL; ended when the block ends."""
    bound = bind_socket("127.0.0.1", 0)
    is_up = asyncio.Event()
    server = Server(state, bound, on_ready=is_up.set)
    running = asyncio.create_task(server.run())
    try:
        await asyncio.wait_for(is_up.wait(), 10)
        yield describe_address(bound), server
    finally:
        server.stop()
        server.stop()
        await asyncio.wait_for(running, 10)
        bound.close()
        state.engine.close()


def read_events(text: str) -> list[Any]:
    """The events of a stream; the last must be [DONE], which is left out."""
    lines = text.split("\n\n")
    assert lines[-1] == ""
    assert lines[-2] == "data: [DONE]"
    assert all(line.startswith("data: ") for line in lines[:-1])
    return [json.loads(line.removeprefix("data: ")) for line in lines[:-2]]


def call(method: str, path: str, *, state: Any = None, headers: dict[str, str] | None = None, **more: Any) -> Any:
    """The response to one request."""

    async def run() -> Any:
        async with in_memory(state or make_state()) as http:
            return await http.request(method, path, headers=headers, **more)

    return asyncio.run(run())
