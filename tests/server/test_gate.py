"""Room is taken at the door, before anything else is done, and given back after the last byte."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from starlette.types import Message
from tests.api.fakes import FakeEngineClient
from tests.http_adversary.wire import connect, exchange, post
from tests.observability.exposition import read_samples
from tests.server.http import call, in_memory, make_state, on_a_port
from tests.server.test_tally import check_law

from pelton.server.app import make_app
from pelton.server.gate import read_length
from pelton.server.state import ServerState

pytestmark = pytest.mark.unit
BODY = json.dumps({"prompt": "a", "max_tokens": 3}).encode()


async def hear_first_line(url: str, *parts: bytes) -> bytes:
    """What a server says first to `parts`, sent a moment apart."""
    reader, writer = await connect(url)
    try:
        for part in parts:
            writer.write(part)
            await asyncio.sleep(0.02)
        return await asyncio.wait_for(reader.readline(), 5)
    finally:
        writer.transport.abort()


def fill(state: ServerState) -> None:
    """Leave no room."""
    for _ in range(state.admission.max_live):
        state.admission.enter()


@pytest.mark.parametrize(
    "path", ["/v1/completions", "/v1/chat/completions", "/v1/prefixes", "/tokenize", "/detokenize"]
)
def test_a_full_server_refuses_without_reading_a_byte(path: str) -> None:
    async def run() -> None:
        state, sent = make_state(max_num_queued_requests=0), []
        fill(state)

        async def receive() -> Message:
            raise AssertionError("the body was read")

        async def send(message: Message) -> None:
            sent.append(message)

        headers = [(b"host", b"test"), (b"content-length", b"7000000"), (b"expect", b"100-continue")]
        scope = {"type": "http", "method": "POST", "path": path, "root_path": "", "query_string": b""}
        await make_app(state)({**scope, "headers": headers}, receive, send)
        assert sent[0]["status"] == 503
        said = dict(sent[0]["headers"])
        assert said[b"x-ratelimit-limit-requests"] == b"4"
        assert said[b"x-ratelimit-remaining-requests"] == b"0"
        assert said[b"x-ratelimit-reset-requests"] == b"100ms"
        assert said[b"x-should-retry"] == b"true"
        assert 80 <= int(said[b"retry-after-ms"]) <= 121
        assert state.admission.num_live == 4
        check_law(read_samples(state.metrics))

    asyncio.run(run())


def test_answers_say_how_much_room_is_left() -> None:
    state = make_state(max_num_queued_requests=6, max_queued_tokens=1000)
    headers = call("POST", "/v1/completions", state=state, content=BODY).headers
    assert headers["x-ratelimit-limit-requests"] == "10"
    assert headers["x-ratelimit-remaining-requests"] == "9"
    assert headers["x-ratelimit-limit-tokens"] == "1000"
    assert headers["x-ratelimit-remaining-tokens"] == str(1000 - len("a") - 1 - 3)
    assert headers["x-ratelimit-reset-tokens"] == "0ms"
    assert "connection" not in headers
    assert state.admission.is_empty()
    assert "x-ratelimit-limit-requests" not in call("GET", "/v1/models", state=state).headers


def test_nobody_keeps_a_connection_to_a_server_that_shuts_down() -> None:
    state = make_state()
    state.admission.is_draining = True
    response = call("POST", "/v1/completions", state=state, content=BODY)
    assert (response.status_code, response.headers["connection"]) == (503, "close")
    assert "shutting down" in response.text


@pytest.mark.parametrize(
    "body", [b"{", b'{"prompt": "a", "temprature": 1}', b'{"prompt": "a", "n": 99}', b'{"prompt": 7}']
)
def test_a_request_that_is_refused_later_gives_its_room_back(body: bytes) -> None:
    state = make_state(max_num_queued_requests=4)
    response = call("POST", "/v1/completions", state=state, content=body)
    assert response.status_code == 400
    assert state.admission.is_empty()


def test_bodies_that_have_not_come_yet_take_room() -> None:
    """Otherwise a thousand clients would all be let in while none of them is counted."""

    async def run() -> None:
        state = make_state(max_num_queued_requests=0)
        head = post("/v1/completions", b" " * 100, "connection: close")[:-100]
        async with on_a_port(state) as (url, _):
            slow = [asyncio.create_task(exchange(url, head)) for _ in range(state.admission.max_live)]
            async with asyncio.timeout(5):
                while state.admission.num_live < state.admission.max_live:
                    await asyncio.sleep(0.01)
            (answer,) = await exchange(url, post("/v1/completions", BODY, "connection: close"))
            assert answer.status == 503
            for task in slow:
                task.cancel()
            await asyncio.gather(*slow, return_exceptions=True)
            async with asyncio.timeout(5):
                while not state.admission.is_empty():
                    await asyncio.sleep(0.01)
            check_law(read_samples(state.metrics))

    asyncio.run(run())


def test_chunks_are_counted_as_they_come() -> None:
    async def run() -> None:
        state = make_state(max_queued_tokens=1000)
        other = state.admission.enter(num_bytes=3600)
        head = b"POST /v1/completions HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n"
        chunk = b"c8\r\n" + b" " * 200 + b"\r\n"
        async with on_a_port(state) as (url, _):
            (answer,) = await exchange(url, head + chunk, chunk, chunk, pause_s=0.02)
        assert answer.status == 503
        assert "tokens run or wait" in answer.json()["error"]["message"]
        other.give_back()
        assert state.admission.is_empty()

    asyncio.run(run())


def test_who_waits_to_be_asked_for_the_body_is_refused_or_asked() -> None:
    async def run() -> None:
        state = make_state(max_num_queued_requests=0)
        request = post("/v1/completions", BODY, "connection: close", "expect: 100-continue")
        head = request[: -len(BODY)]
        async with on_a_port(state) as (url, _):
            assert (await hear_first_line(url, head, BODY)).startswith(b"HTTP/1.1 100 ")
            fill(state)
            assert (await hear_first_line(url, head)).startswith(b"HTTP/1.1 503 ")

    asyncio.run(run())


@pytest.mark.parametrize("stream", [False, True])
def test_room_is_held_until_the_answer_has_been_sent(stream: bool) -> None:
    async def run() -> None:
        client = FakeEngineClient()
        client.gate = asyncio.Event()
        state = make_state(client)
        async with in_memory(state) as http:
            body: dict[str, Any] = {"prompt": "a", "n": 2, "stream": stream}
            asking = asyncio.create_task(http.post("/v1/completions", json=body))
            async with asyncio.timeout(5):
                while len(client.live) < 2:
                    await asyncio.sleep(0)
            assert state.admission.num_live == 2
            client.gate.set()
            await asking
        assert state.admission.is_empty()

    asyncio.run(run())


def test_lengths_that_make_no_sense_are_none() -> None:
    assert [read_length(value) for value in (b"17", b"", b"-1", b"1e3", b"9" * 30)] == [17, 0, 0, 0, 0]
