"""Who comes in: a request with a body takes room before its body is read, and holds it until its answer has been sent.

Invariant: what a request holds is given back once, however it ends. A refusal costs a head and nothing more: no body is
read, no route is looked for, and `Expect: 100-continue` gets the refusal instead of an invitation. Every answer from
here on says in x-ratelimit headers how much room its tenant has left.
"""

from __future__ import annotations

import math
from typing import Final, final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pelton.errors import CapacityError
from pelton.server.error_answer import make_error_response
from pelton.server.request_record import current_record
from pelton.server.state import ServerState

_CLOSE: Final = (b"connection", b"close")


@final
class Gate:
    """ASGI middleware around the routes. `paths` are those that take a body."""

    def __init__(self, app: ASGIApp, *, state: ServerState, paths: frozenset[str]) -> None:
        self._app = app
        self._state = state
        self._paths = paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on or refuse."""
        record = current_record()
        if scope["type"] != "http" or scope["method"] != "POST" or record is None or record.path not in self._paths:
            await self._app(scope, receive, send)
            return
        admission, tenant = self._state.admission, record.tenant

        async def send_with_room(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], *self._describe_room(tenant)]}
            await send(message)

        declared = read_length(record.headers.get(b"content-length", b""))
        try:  # a body that is too large is refused for that, whatever room there is
            record.held = admission.enter(tenant, min(declared, self._state.config.server.max_body_bytes))
        except CapacityError as error:
            await make_error_response(error)(scope, receive, send_with_room)
            return
        try:
            await self._app(scope, receive, send_with_room)
        finally:
            record.held.give_back()

    def _describe_room(self, tenant: str) -> list[tuple[bytes, bytes]]:
        admission = self._state.admission
        room = admission.find_room(tenant)
        is_full = not (room.num_live_left and room.num_tokens_left)
        reset = b"%dms" % (math.ceil(1000 * admission.estimate_retry_s()) if is_full else 0)
        headers = [
            (b"x-ratelimit-limit-requests", b"%d" % room.max_live),
            (b"x-ratelimit-remaining-requests", b"%d" % room.num_live_left),
            (b"x-ratelimit-reset-requests", reset),
            (b"x-ratelimit-limit-tokens", b"%d" % room.max_tokens),
            (b"x-ratelimit-remaining-tokens", b"%d" % room.num_tokens_left),
            (b"x-ratelimit-reset-tokens", reset),
        ]
        return [*headers, _CLOSE] if admission.is_draining else headers


def read_length(declared: bytes) -> int:
    """The length that a head declares, or 0 if none that makes sense; what comes is counted again.

    >>> read_length(b"12"), read_length(b""), read_length(b"-1"), read_length(b"9" * 40)
    (12, 0, 0, 0)
    """
    return int(declared) if declared.isdigit() and len(declared) < 16 else 0
