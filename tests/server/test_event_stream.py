"""Server-sent events on the wire."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from starlette.types import Message

from pelton.errors import CapacityError
from pelton.server.event_stream import EventStream, encode_event

pytestmark = pytest.mark.unit


async def send_all(events: AsyncGenerator[list[Any]], first: list[Any]) -> list[Message]:
    """What a client gets that stays to the end."""
    sent: list[Message] = []

    async def receive() -> Message:
        return await asyncio.Future()

    async def send(message: Message) -> None:
        sent.append(message)

    await EventStream(first, events, "r", [(b"x-a", b"b")])({}, receive, send)
    return sent


async def give(*events: Any) -> AsyncGenerator[list[Any]]:
    """Yield lists; raise errors."""
    for event in events:
        if isinstance(event, Exception):
            raise event
        yield event


def body_of(messages: list[Message]) -> bytes:
    return b"".join(m["body"] for m in messages[1:])


def test_events_of_one_step_leave_together_and_done_is_last() -> None:
    sent = asyncio.run(send_all(give([{"b": 1}, {"c": 1}], []), [{"a": 1}]))
    assert (b"x-a", b"b") in sent[0]["headers"]
    assert [m["body"] for m in sent[1:]] == [
        b'data: {"a":1}\n\n',
        b'data: {"b":1}\n\ndata: {"c":1}\n\n',
        b"data: [DONE]\n\n",
    ]
    assert [m["more_body"] for m in sent[1:]] == [True, True, False]


@pytest.mark.parametrize(
    ("error", "words"),
    [(CapacityError("it is full"), b"it is full"), (ZeroDivisionError("/secret"), b"Request r failed")],
)
def test_an_error_is_an_event_before_done(error: Exception, words: bytes) -> None:
    body = body_of(asyncio.run(send_all(give(error), [{"a": 1}])))
    *_, failure, done, rest = body.split(b"\n\n")
    assert (done, rest) == (b"data: [DONE]", b"")
    assert words in failure
    assert b"secret" not in body


def test_line_breaks_in_text_stay_inside_the_event() -> None:
    assert encode_event({"t": "a\r\nb\n\n"}).count(b"\n") == 2


def test_a_client_that_leaves_closes_the_source() -> None:
    async def run() -> None:
        is_closed = asyncio.Event()
        left = asyncio.Event()

        async def endless() -> AsyncGenerator[list[Any]]:
            try:
                while True:
                    yield [{"a": 1}]
                    left.set()
                    await asyncio.sleep(0)
            finally:
                is_closed.set()

        async def receive() -> Message:
            await left.wait()
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            assert not is_closed.is_set()

        await asyncio.wait_for(EventStream([], endless(), "r")({}, receive, send), 10)
        assert is_closed.is_set()

    asyncio.run(run())
