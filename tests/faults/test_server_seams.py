"""The k-th call of each thing that the server leans on fails: every request has one end, and nothing stays behind."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.api.fakes import ByteTokenizer, OneLineChat
from tests.engine.fake_engine_main import Behaviour
from tests.http_adversary.wire import connect, post, read_answers
from tests.leaks.census import Census
from tests.server.engine_process import serving

from pelton.api.output_text import OutputText
from pelton.engine.live_request import LiveRequests
from pelton.engine.process_client import ProcessClient
from pelton.engine.supervisor import Supervisor
from pelton.server.admission import Admission, Held
from pelton.server.event_stream import EventStream
from pelton.server.state import ServerState
from pelton.server.tally import Tally

pytestmark = pytest.mark.cpu  # real servers and processes


class InjectedFault(Exception):
    """What fails."""


SEAMS: dict[str, tuple[type, str]] = {
    "tokenizer": (ByteTokenizer, "encode"),
    "template": (OneLineChat, "make_prompt"),
    "detokenizer": (OutputText, "push"),
    "ipc send": (Supervisor, "send"),
    "live request": (LiveRequests, "open"),
    "enter": (Admission, "enter"),
    "hold": (Held, "ask"),
    "settle": (Held, "settle"),
    "count": (Tally, "add"),
    "socket write": (EventStream, "_send_events"),
}
BODIES: list[tuple[str, dict[str, Any]]] = [
    ("/v1/completions", {"prompt": "hello", "max_tokens": 6}),
    ("/v1/completions", {"prompt": "there", "max_tokens": 6, "stream": True}),
    ("/v1/completions", {"prompt": ["a b", "c d"], "max_tokens": 4, "n": 2, "stream": True}),
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 6}),
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 6, "stream": True}),
]


class FailingAt:
    """Stands for a method, and raises at its k-th call."""

    def __init__(self, method: Callable[..., Any], k: int) -> None:
        self.method = method
        self.k = k
        self.num_calls = 0

    def __get__(self, instance: Any, _owner: Any) -> Callable[..., Any]:
        return lambda *args, **more: self(instance, *args, **more)

    def __call__(self, *args: Any, **more: Any) -> Any:
        self.num_calls += 1
        if self.num_calls == self.k:
            raise InjectedFault("this call fails")
        return self.method(*args, **more)


async def ask(url: str, path: str, body: dict[str, Any]) -> str:
    """How one request ended: "ok", "error" or "cut". Anything else is an AssertionError."""
    reader, writer = await connect(url)
    writer.write(post(path, json.dumps(body).encode(), "connection: close"))
    received = b""
    with contextlib.suppress(ConnectionError):
        received = await asyncio.wait_for(reader.read(-1), 10)
    writer.close()
    if not received:
        return "cut"
    try:
        (answer,) = read_answers(received)
    except EOFError:
        return "cut"
    if answer.status != 200:
        assert answer.status in (500, 503), answer
        assert set(answer.json()) == {"error"}
        return "error"
    if not body.get("stream"):
        assert all(choice["finish_reason"] for choice in answer.json()["choices"])
        return "ok"
    events = [event.removeprefix("data: ") for event in answer.body.decode().split("\n\n")[:-1]]
    assert events.count("[DONE]") == 1
    assert events[-1] == "[DONE]"
    values = [json.loads(event) for event in events[:-1]]
    if any("error" in value for value in values):
        assert "error" in values[-1]
        return "error"
    ends = [choice["index"] for value in values for choice in value["choices"] if choice["finish_reason"]]
    num_answers = body.get("n", 1) * (len(body["prompt"]) if isinstance(body.get("prompt"), list) else 1)
    assert sorted(ends) == list(range(num_answers)), "each answer ends once"
    return "ok"


async def until_quiet(state: ServerState, client: ProcessClient) -> None:
    for _ in range(1000):
        stats = client.stats()
        if not (state.admission.num_live or len(client._live) or stats.num_running or stats.is_busy):
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"something is left: {state.admission.num_live} admitted, {client.stats()}")


@pytest.fixture
def without_log() -> Iterator[None]:
    """Tracebacks in kept log records would hold on to everything."""
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.usefixtures("without_log")
@pytest.mark.parametrize("seam", SEAMS)
def test_the_kth_call_fails(seam: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, name = SEAMS[seam]
    method = getattr(owner, name)

    async def run() -> None:
        async with serving(Behaviour(), max_num_queued_requests=100) as (state, client, http):
            url, pid = str(http.base_url), client.engine_pid
            assert pid is not None
            for _ in range(5):  # what is made once has been made, both template threads too
                assert await asyncio.gather(*(ask(url, *each) for each in BODIES)) == ["ok"] * len(BODIES)
            await until_quiet(state, client)
            before, failed = Census.take(pid), 0
            for k in (*range(1, 13), 20, 30):
                failing = FailingAt(method, k)
                monkeypatch.setattr(owner, name, failing)
                ends = await asyncio.gather(*(ask(url, *each) for each in BODIES))
                monkeypatch.setattr(owner, name, method)
                assert len(BODIES) - ends.count("ok") <= 1, f"{k}: {ends}"
                failed += "ok" in ends and len(set(ends)) > 1
                await until_quiet(state, client)
                state.metrics.ledger.check()
                assert await asyncio.gather(*(ask(url, *each) for each in BODIES)) == ["ok"] * len(BODIES)
            assert failed, "the seam is never used"
            await until_quiet(state, client)
            leaks: list[str] = []
            for _ in range(30):
                leaks = Census.take(pid).find_leaks(before, slack=60)
                if not leaks:
                    break
                await asyncio.sleep(0.1)
            assert not leaks, leaks
            assert client.engine_pid == pid

    asyncio.run(asyncio.wait_for(run(), 100))
