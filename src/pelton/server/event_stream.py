"""A response of server-sent events, in exactly the form that OpenAI clients read.

Invariant: headers are sent with the first event and not before, so whatever fails earlier has its own status; what
fails later is an `error` event; the last event is always `[DONE]`. A client that leaves ends the source at once.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any

import msgspec
from starlette.types import Receive, Scope, Send

from pelton.errors import EngineError
from pelton.observability.log import Log
from pelton.server.disconnect import ClientGone, until_disconnect
from pelton.server.error_answer import make_error_body, make_internal_error

log = Log("server")
HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),  # proxies hold streams back otherwise
]
DONE = b"data: [DONE]\n\n"


def encode_event(value: Any) -> bytes:
    """One event. JSON has no line breaks, so an event is one data line.

    >>> encode_event({"a": 1})
    b'data: {"a":1}\\n\\n'
    """
    return b"data: " + msgspec.json.encode(value) + b"\n\n"


class EventStream:
    """An ASGI response. `first` has been taken from `events` already."""

    def __init__(
        self,
        first: list[Any],
        events: AsyncGenerator[list[Any]],
        request_id: str,
        headers: Sequence[tuple[bytes, bytes]] = (),
    ) -> None:
        self._headers = [*HEADERS, *headers]
        self._first = first
        self._events = events
        self._request_id = request_id

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send everything, unless the client leaves before."""
        async with aclosing(self._events):
            try:
                await until_disconnect(receive, self._send_all(send))
            except ClientGone:
                log.debug("client left a stream", request_id=self._request_id)

    async def _send_all(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self._headers})
        await self._send_events(send, self._first)
        try:
            async for events in self._events:
                await self._send_events(send, events)
        except EngineError as error:
            log.warning("a stream ends with an error", reason=str(error), request_id=self._request_id)
            await self._send_events(send, [make_error_body(error)])
        except Exception as error:  # noqa: BLE001  the HTTP border: the client of a running stream must hear of it
            log.error("a stream failed", error=error, request_id=self._request_id)
            await self._send_events(send, [make_error_body(make_internal_error(self._request_id))])
        await send({"type": "http.response.body", "body": DONE, "more_body": False})

    async def _send_events(self, send: Send, events: list[Any]) -> None:
        if events:
            body = b"".join(map(encode_event, events))
            await send({"type": "http.response.body", "body": body, "more_body": True})
