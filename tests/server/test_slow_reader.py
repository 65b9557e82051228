"""A client that does not read is cut off after a while, holds up nobody, and costs no memory."""

from __future__ import annotations

import asyncio
import json
import socket
from typing import Any, Final

import pytest
from tests.api.fakes import FakeEngineClient, text_tokens
from tests.http_adversary.wire import connect, exchange, get, post
from tests.observability.exposition import read_samples
from tests.server.http import make_state, on_a_port
from tests.server.test_tally import check_law

from pelton.server import lifecycle
from pelton.server.http_protocol import HttpProtocol
from pelton.server.state import ServerState

pytestmark = pytest.mark.unit
NUM_TOKENS: Final = 150  # with the log-probabilities of 20 each: about 1 KB a token


def make_large(n: int, *, stream: bool) -> bytes:
    messages = [{"role": "user", "content": "a"}]
    body = {"messages": messages, "max_tokens": NUM_TOKENS, "logprobs": True, "top_logprobs": 20, "n": n}
    return post("/v1/chat/completions", json.dumps({**body, "stream": stream}).encode())


def make_talkative() -> FakeEngineClient:
    return FakeEngineClient(lambda _request: text_tokens("x" * 500))


async def open_small(url: str) -> socket.socket:
    """A connection whose client's system keeps next to nothing for it."""
    host, port = url.removeprefix("http://").split(":")
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    client.setblocking(False)
    await asyncio.get_running_loop().sock_connect(client, (host, int(port)))
    return client


async def until_empty(state: ServerState) -> None:
    async with asyncio.timeout(10):
        while not state.admission.is_empty():
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("stream", [False, True])
def test_who_does_not_read_is_cut_off_and_others_are_served(monkeypatch: pytest.MonkeyPatch, stream: bool) -> None:
    monkeypatch.setattr(HttpProtocol, "read_timeout_s", 0.5)

    async def run() -> None:
        client = make_talkative()
        state = make_state(client, max_num_queued_requests=8)
        async with on_a_port(state) as (url, _):
            with await open_small(url) as lazy:
                await asyncio.get_running_loop().sock_sendall(lazy, make_large(8, stream=stream))
                async with asyncio.timeout(10):
                    while not client.requests:
                        await asyncio.sleep(0.01)
                (answer,) = await exchange(url, make_large(1, stream=stream))
                assert answer.status == 200
                assert len(answer.body) > 500 * NUM_TOKENS
                assert not state.admission.is_empty()
                await until_empty(state)
                assert not client.live
        samples = read_samples(state.metrics)
        check_law(samples)
        assert samples["request_success_total length"] >= 1
        assert (
            samples["request_success_total client_too_slow"] > 0
        ) == stream  # a whole answer was whole before it left

    asyncio.run(run())


def test_who_pauses_and_reads_on_gets_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HttpProtocol, "read_timeout_s", 5.0)

    async def run() -> None:
        state = make_state(make_talkative(), max_num_queued_requests=8)
        async with on_a_port(state) as (url, _):
            with await open_small(url) as slow:
                loop = asyncio.get_running_loop()
                await loop.sock_sendall(slow, make_large(4, stream=True))
                await asyncio.sleep(0.5)
                assert not state.admission.is_empty()
                received = bytearray()
                async with asyncio.timeout(10):
                    while not received.endswith(b"0\r\n\r\n"):
                        received += await loop.sock_recv(slow, 1 << 16)
                assert received.count(b'"finish_reason":"length"') == 4
                events = [json.loads(line[6:]) for line in received.split(b"\n") if line.startswith(b"data: {")]
                texts = [choice["delta"].get("content", "") for event in events for choice in event["choices"]]
                assert "".join(texts) == "x" * (4 * NUM_TOKENS)
        assert read_samples(state.metrics)["request_success_total length"] == 4

    asyncio.run(run())


def test_a_closed_connection_that_is_not_read_goes_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer fits into the buffers of the server, which then waits for nothing but its client."""
    monkeypatch.setattr(HttpProtocol, "read_timeout_s", 0.3)

    async def run() -> None:
        state = make_state(make_talkative(), max_num_queued_requests=8)
        async with on_a_port(state) as (url, server):
            with await open_small(url) as lazy:
                loop = asyncio.get_running_loop()
                await loop.sock_sendall(
                    lazy, make_large(2, stream=False).replace(b"host:", b"connection: close\r\nhost:")
                )
                connections = server._uvicorn.server_state.connections
                async with asyncio.timeout(10):
                    while not connections:
                        await asyncio.sleep(0.01)
                    while connections:
                        await asyncio.sleep(0.01)

    asyncio.run(run())


def test_connections_are_bounded_and_idle_ones_make_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifecycle, "choose_max_connections", lambda: 2)

    async def run() -> None:
        async with on_a_port(make_state()) as (url, _):
            busy_reader, busy = await connect(url)
            busy.write(post("/v1/completions", b" " * 10)[:-5])
            idle_reader, idle = await connect(url)
            idle.write(get("/health"))
            await asyncio.wait_for(idle_reader.readuntil(b"}"), 5)
            (answer,) = await exchange(url, get("/health"))
            assert answer.status == 200
            assert await asyncio.wait_for(idle_reader.read(), 5) == b""
            idle.close()
            _, other = await connect(url)
            other.write(get("/health")[:-2])
            await asyncio.sleep(0.1)
            (answer,) = await exchange(url)
            said: dict[str, Any] = answer.json()["error"]
            assert (answer.status, said["type"]) == (503, "overloaded_error")
            assert "has 2 connections" in said["message"]
            for writer in (busy, other):
                writer.close()
            assert busy_reader is not idle_reader

    asyncio.run(run())
