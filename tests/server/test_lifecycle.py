"""A real server on a port: clients that leave, signals, slow starts."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from typing import Any

import httpx
import pytest
from tests.api.fakes import ANSWER, FakeEngineClient
from tests.server.http import make_state, on_a_port, read_events

from pelton.config.schema import LogConfig
from pelton.errors import InternalError
from pelton.server.lifecycle import Server
from pelton.server.listen import bind_socket, describe_address

pytestmark = pytest.mark.cpu  # real servers
DEADLINE_S = 10.0


async def until(condition: Any) -> None:
    """Wait until `condition()` holds; fail after DEADLINE_S."""
    end_s = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < end_s, "it did not happen in time"
        await asyncio.sleep(0.005)


def raw_request(body: dict[str, Any], path: str = "/v1/completions") -> bytes:
    """The bytes of a POST."""
    payload = json.dumps(body).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {len(payload)}\r\n\r\n"
    )
    return head.encode() + payload


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("is_gate_first", [False, True])
@pytest.mark.parametrize("n", [1, 3])
def test_a_client_that_leaves_is_cancelled_at_once(stream: bool, is_gate_first: bool, n: int) -> None:
    async def run() -> None:
        client = FakeEngineClient()
        client.gate, client.is_gate_first = asyncio.Event(), is_gate_first
        state = make_state(client)
        async with on_a_port(state) as (url, _):
            _, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
            writer.write(raw_request({"prompt": "a", "stream": stream, "n": n}))
            await until(lambda: len(client.live) == n)
            writer.close()
            await writer.wait_closed()
            await until(lambda: not client.live)
            assert len(client.aborted) == n
            assert state.admission.num_live == 0
            assert f'finished_reason="abort",model_name="tiny"}} {n}.0' in state.metrics.render().decode()

    asyncio.run(run())


def test_the_first_signal_lets_live_requests_end() -> None:
    async def run() -> None:
        client = FakeEngineClient()
        client.gate = asyncio.Event()
        state = make_state(client, shutdown_timeout_s=DEADLINE_S)
        async with on_a_port(state) as (url, _), httpx.AsyncClient(base_url=url) as http:
            body = {"prompt": "a", "stream": True, "max_tokens": 50}
            live = asyncio.create_task(http.post("/v1/completions", json=body))
            await until(lambda: client.live)
            os.kill(os.getpid(), signal.SIGTERM)
            await until(lambda: state.admission.is_draining)
            assert (await http.get("/ready")).status_code == 503
            assert (await http.get("/health")).status_code == 200
            refused = await http.post("/v1/completions", json={"prompt": "b"})
            assert (refused.status_code, "shutting down" in refused.text) == (503, True)
            client.gate.set()
            text = "".join(e["choices"][0]["text"] for e in read_events((await live).text))
            assert text == ANSWER

    asyncio.run(run())


def test_what_runs_too_long_ends_with_an_error_that_says_so() -> None:
    async def run() -> None:
        client = FakeEngineClient()
        client.gate = asyncio.Event()
        state = make_state(client, shutdown_timeout_s=0.05)
        async with on_a_port(state) as (url, server), httpx.AsyncClient(base_url=url) as http:
            whole = asyncio.create_task(http.post("/v1/completions", json={"prompt": "a"}))
            stream = asyncio.create_task(http.post("/v1/completions", json={"prompt": "a", "stream": True}))
            await until(lambda: len(client.live) == 2)
            server.stop()
            answer, events = await whole, read_events((await stream).text)
            assert (answer.status_code, "shuts down" in answer.text) == (503, True)
            assert "shuts down" in events[-1]["error"]["message"]
            assert client.is_closed

    asyncio.run(run())


def test_a_second_signal_ends_at_once() -> None:
    async def run() -> None:
        client = FakeEngineClient()
        client.gate = asyncio.Event()
        state = make_state(client, shutdown_timeout_s=3600.0)
        async with on_a_port(state) as (url, server), httpx.AsyncClient(base_url=url) as http:
            live = asyncio.create_task(http.post("/v1/completions", json={"prompt": "a"}))
            await until(lambda: client.live)
            server.stop()
            server.stop()
            with pytest.raises((httpx.NetworkError, httpx.RemoteProtocolError)):
                await asyncio.wait_for(live, DEADLINE_S)
            await until(lambda: not client.live)

    asyncio.run(run())


def test_a_server_whose_engine_does_not_come_back_ends_with_an_error() -> None:
    async def run() -> None:
        client = FakeEngineClient()
        client.gate = asyncio.Event()
        state = make_state(client)
        bound = bind_socket("127.0.0.1", 0)
        is_up = asyncio.Event()
        server = asyncio.create_task(Server(state, bound, on_ready=is_up.set).run())
        await asyncio.wait_for(is_up.wait(), DEADLINE_S)
        async with httpx.AsyncClient(base_url=describe_address(bound)) as http:
            live = asyncio.create_task(http.post("/v1/completions", json={"prompt": "a", "max_tokens": 5}))
            await until(lambda: client.live)
            client.lost.set()
            await until(lambda: state.admission.is_draining)
            client.gate.set()  # as its client ends what is live, with an error
            assert (await live).status_code == 200
            with pytest.raises(InternalError, match=r"no engine any more\. It failed for good\."):
                await asyncio.wait_for(server, DEADLINE_S)
        bound.close()
        state.engine.close()

    asyncio.run(run())


def test_a_body_of_10_mb_is_answered_before_the_connection_closes() -> None:
    async def run() -> None:
        async with on_a_port(make_state()) as (url, _), httpx.AsyncClient(base_url=url) as http:
            response = await http.post("/v1/completions", json={"prompt": "a" * 10_000_000})
            assert response.status_code == 413

    asyncio.run(run())


def test_headers_that_are_too_large_are_refused() -> None:
    async def run() -> None:
        async with on_a_port(make_state()) as (url, _):
            reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
            writer.write(b"GET /health HTTP/1.1\r\nx: " + b"a" * 200_000)
            assert b"431" in await asyncio.wait_for(reader.readline(), DEADLINE_S)
            writer.close()

    asyncio.run(run())


def test_the_access_log_names_each_request(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        async with on_a_port(make_state(log=LogConfig())) as (url, _), httpx.AsyncClient(base_url=url) as http:
            await http.get("/version", headers={"x-request-id": "abc"})

    with caplog.at_level("INFO", logger="pelton.server"):
        asyncio.run(run())
    (line,) = [r for r in caplog.records if r.getMessage() == "request"]
    assert line.__dict__["request_id"] == "abc"
    fields = line.__dict__["fields"]
    assert (fields["method"], fields["path"], fields["status"]) == ("GET", "/version", 200)
