"""A client that leaves frees what its request holds within one step, whatever state it is in."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from typing import Any, Final

import pytest
from starlette.types import ASGIApp, Message
from tests.server.manual_engine import MAX_CHUNK, MAX_NUM_REQUESTS, NUM_BLOCKS, ManualClient, make_manual_state, settle

from pelton.engine.request import State
from pelton.server.app import make_app
from pelton.server.state import ServerState

pytestmark = pytest.mark.unit
LONG_TEXT: Final = "x" * 5000  # is tokenized on a thread


class Client:
    """Sends one request into the application, and leaves when it is told to."""

    def __init__(self, app: ASGIApp, body: bytes, *, is_body_whole: bool = True) -> None:
        self.sent: list[Message] = []
        self._body, self._is_body_whole = body, is_body_whole
        self._has_sent = False
        self._left = asyncio.Event()
        head = [(b"host", b"test"), (b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        scope = {"type": "http", "method": "POST", "path": "/v1/completions", "root_path": "", "query_string": b""}
        self.task = asyncio.create_task(app({**scope, "headers": head}, self._receive, self._send))

    async def _receive(self) -> Message:
        if not self._has_sent:
            self._has_sent = True
            return {"type": "http.request", "body": self._body, "more_body": not self._is_body_whole}
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        self.sent.append(message)

    def leave(self) -> None:
        """Close the connection."""
        self._left.set()


class Place:
    """A server with an engine that stands still."""

    def __init__(self) -> None:
        self.client = ManualClient()
        self.state: ServerState = make_manual_state(self.client)
        self._app = make_app(self.state)

    def ask(self, prompt: Any, max_tokens: int = 20, *, is_body_whole: bool = True, **fields: Any) -> Client:
        """Send a request."""
        body = {"prompt": prompt, "max_tokens": max_tokens, "temperature": 0, "ignore_eos": True, **fields}
        return Client(self._app, json.dumps(body).encode(), is_body_whole=is_body_whole)

    def step_until(self, holds: Callable[[], bool]) -> None:
        """Make steps."""
        for _ in range(200):
            if holds():
                return
            self.client.step()
        raise AssertionError("that never holds")


async def read_body(place: Place, fields: dict[str, Any]) -> Client:
    return place.ask([1, 2, 3], is_body_whole=False, **fields)


async def wait_in_queue(place: Place, fields: dict[str, Any]) -> Client:
    for number in range(MAX_NUM_REQUESTS):
        place.ask([5, number], 50)
    await settle()
    place.client.step()
    target = place.ask([1, 2, 3], **fields)
    await settle()
    place.client.step()
    assert place.client.stats().num_waiting == fields["n"]
    return target


async def prefill(place: Place, fields: dict[str, Any]) -> Client:
    target = place.ask(list(range(2, 2 + 3 * MAX_CHUNK)), **fields)
    await settle()
    place.client.step()
    assert place.client.scheduler.num_generation_tokens == 0
    return target


async def decode(place: Place, fields: dict[str, Any]) -> Client:
    target = place.ask([1, 2, 3], **fields)
    await settle()
    place.step_until(lambda: place.client.scheduler.num_generation_tokens >= 3)
    await settle()
    assert bool(target.sent) == fields["stream"]
    return target


async def be_preempted(place: Place, fields: dict[str, Any]) -> Client:
    for number in range(MAX_NUM_REQUESTS - 1):
        place.ask([5, number] * 4, 40)
    await settle()
    place.client.step()
    target = place.ask([1, 2, 3], 40, **{**fields, "n": 1})  # the one that has least to lose
    await settle()
    place.client.step()
    (request,) = list(place.client.scheduler._live.values())[MAX_NUM_REQUESTS - 1 :]
    place.step_until(lambda: request.num_preemptions > 0 and request.state is State.WAITING)
    return target


async def wait_for_prefix(place: Place, fields: dict[str, Any]) -> Client:
    prompt = list(range(2, 2 + 5 * MAX_CHUNK))
    place.ask(prompt)
    await settle()
    place.client.step()
    target = place.ask(prompt, **fields)
    await settle()
    place.client.step()
    assert place.client.stats().num_waiting == fields["n"]
    assert len(place.client.scheduler._parking) == fields["n"]
    return target


async def recover(place: Place, fields: dict[str, Any]) -> Client:
    target = await decode(place, fields)
    place.client.lose()
    await settle()
    return target


WAYS: Final = (read_body, wait_in_queue, prefill, decode, be_preempted, wait_for_prefix, recover)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("n", [1, 2])
def test_who_leaves_is_gone_before_the_next_step(way: Any, stream: bool, n: int) -> None:
    async def run() -> None:
        place = Place()
        target = await way(place, {"stream": stream, "n": n})
        await settle()
        num_answers = {read_body: 0, be_preempted: 1}.get(way, n)
        num_others = len(place.client.live) - num_answers
        target.leave()
        await asyncio.wait_for(target.task, 5)
        if place.client.engine is None:
            place.client.start()
        stats, ledger = place.client.stats(), place.state.metrics.ledger
        assert len(place.client.live) == ledger.num_live == num_others
        assert stats.num_running + stats.num_waiting == num_others  # without a step in between
        assert ledger.finished["abort"] == max(1, num_answers)
        place.step_until(lambda: not place.client.loop.has_work)
        await settle()
        assert place.client.stats().num_free_blocks == NUM_BLOCKS
        assert place.state.admission.is_empty()
        place.state.metrics.ledger.check()
        place.state.engine.close()

    asyncio.run(run())


def test_who_leaves_while_its_prompt_is_tokenized_never_comes_to_the_engine() -> None:
    async def run() -> None:
        place = Place()
        may_go_on = threading.Event()
        tokenizer = place.state.engine.parts.tokenizer
        encode = tokenizer.encode
        tokenizer.encode = lambda *args, **more: (may_go_on.wait(5), encode(*args, **more))[1]  # type: ignore[method-assign]
        target = place.ask(LONG_TEXT)
        await settle()
        assert place.state.admission.num_live == 1
        target.leave()
        await asyncio.wait_for(target.task, 5)
        assert place.state.admission.is_empty()
        may_go_on.set()
        place.state.engine._threads.shutdown(wait=True)
        await settle()
        assert len(place.client.live) == 0
        assert place.state.metrics.ledger.finished["abort"] == 1
        place.state.metrics.ledger.check()
        place.state.engine.close()

    asyncio.run(run())
