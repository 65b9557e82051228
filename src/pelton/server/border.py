"""The outermost layer of the server: request ids, the access log, the Host check, and faults of ours.

Invariant: every HTTP request gets an answer, an id (echoed as x-request-id) and one line in the log. What is not
raised on purpose is logged with its traceback and answered with the id alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import final

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pelton.errors import RequestError
from pelton.observability.log import Log, request_context
from pelton.observability.metrics import Metrics
from pelton.server.disconnect import ClientGone
from pelton.server.error_answer import make_error_response, make_internal_error
from pelton.server.request_record import STATUS_CLIENT_GONE, RequestRecord, recording
from pelton.server.state import choose_request_id

log = Log("server")
_HOST = re.compile(rb"[A-Za-z0-9._:\[\]\-]*")


@final
class Border:
    """ASGI middleware around everything else."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        metrics: Metrics | None = None,
        access_log: bool = True,
        on_end: Callable[[RequestRecord], None] | None = None,
    ) -> None:
        """`on_end` hears of every request once it is over; it must neither raise nor block."""
        self._app = app
        self._metrics = metrics
        self._access_log = access_log
        self._on_end = on_end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request; other kinds of connection pass through."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        request_id = choose_request_id(headers.get(b"x-request-id", b"").decode("latin-1"))
        scope["pelton.request_id"] = request_id
        record = RequestRecord(
            request_id=request_id,
            method=scope["method"],
            path=scope["path"].removeprefix(scope.get("root_path", "")),
            headers=headers,
        )
        scope["pelton.record"] = record
        status = 0

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message = {**message, "headers": [*message["headers"], (b"x-request-id", request_id.encode())]}
            await send(message)

        if self._metrics is not None:
            self._metrics.http.begin()
        with request_context(request_id), recording(record):
            try:
                if _HOST.fullmatch(headers.get(b"host", b"")):
                    await self._app(scope, receive, send_with_id)
                else:
                    refusal = make_error_response(RequestError("host: the header is not a host name."))
                    await refusal(scope, receive, send_with_id)
            except (ClientGone, ClientDisconnect):
                status = STATUS_CLIENT_GONE
            except Exception as error:  # noqa: BLE001  the HTTP border
                log.error("a request failed", error=error, path=scope["path"])
                if status == 0:
                    await make_error_response(make_internal_error(request_id))(scope, receive, send_with_id)
            finally:
                record.end(scope, status, self._metrics)
                if self._access_log:
                    self._write_line(scope, record)
                if self._on_end is not None:
                    self._on_end(record)

    def _write_line(self, scope: Scope, record: RequestRecord) -> None:
        client = scope.get("client")
        log.info(
            "request",
            method=scope["method"],
            path=scope["path"][:200],
            status=record.status,
            duration_s=round(record.duration_s, 4),
            client=client[0] if client else "",
            **record.log_fields(),
        )
