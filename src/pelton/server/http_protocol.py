"""HTTP/1.1 on one connection, stricter than the library: what two servers could read in two ways is refused.

Invariant: a head arrives within HEAD_TIMEOUT_S of its first byte, has at most MAX_HEADERS headers, and one way to tell
where the body ends; whatever is refused here gets an answer in the shape of all other errors, and the connection is
closed. A client that breaks the rules after its answer has begun is cut off, and so is one that does not read: what
waits for it is bounded by the transport's buffer, and gets away within READ_TIMEOUT_S. Runs on the event loop.
"""

from __future__ import annotations

import asyncio
from typing import Any, final

import h11
import msgspec
from uvicorn.protocols.http.h11_impl import H11Protocol

from pelton.observability.log import Log
from pelton.server.request_record import RequestRecord

log = Log("server")

HEAD_TIMEOUT_S = 30.0
READ_TIMEOUT_S = 30.0  # for a client to read about 48 KiB, once 64 KiB wait for it beside what the kernel holds
TOO_SLOW = "client_too_slow"
MAX_HEADERS = 100
MAX_HEADER_BYTES = 64 * 1024
MAX_SMALL_PARTS = 4096
MIN_MEAN_BYTES = 64  # of a part, once there are so many
_CLOSING = (b"connection", b"close")
_REASONS = {
    400: b"Bad Request",
    408: b"Request Timeout",
    431: b"Request Header Fields Too Large",
    503: b"Service Unavailable",
}


@final
class StrictConnection(h11.Connection):
    """Raises RemoteProtocolError also for requests that the grammar allows and that only attackers send."""

    refusal: h11.RemoteProtocolError | None = None  # the reason of the last error
    num_parts = 0  # of the body so far
    num_bytes = 0

    def next_event(self) -> Any:
        """See h11."""
        try:
            event = super().next_event()
            if isinstance(event, h11.Request):
                check_head(event)
                self.num_parts = self.num_bytes = 0
            elif isinstance(event, h11.Data):
                self._count(len(event.data))
        except h11.RemoteProtocolError as error:
            self.refusal = error
            raise
        return event

    def _count(self, num_bytes: int) -> None:
        """Each part costs about 20 us, however small: a body of single bytes would take the loop from everybody."""
        self.num_parts += 1
        self.num_bytes += num_bytes
        if self.num_parts > MAX_SMALL_PARTS and self.num_bytes < MIN_MEAN_BYTES * self.num_parts:
            raise h11.RemoteProtocolError(f"more than {MAX_SMALL_PARTS} chunks of a few bytes each")


def check_head(request: h11.Request) -> None:
    """Raise RemoteProtocolError for too many headers, and for a body whose length is told twice."""
    names = [name for name, _ in request.headers]
    if request.http_version not in (b"1.0", b"1.1"):
        raise h11.RemoteProtocolError("another version of HTTP")
    if len(names) > MAX_HEADERS:
        raise h11.RemoteProtocolError(f"more than {MAX_HEADERS} headers", error_status_hint=431)
    # The library looks at the size only while something is missing.
    if len(request.target) + sum(len(name) + len(value) for name, value in request.headers) > MAX_HEADER_BYTES:
        raise h11.RemoteProtocolError(f"more than {MAX_HEADER_BYTES} bytes of headers", error_status_hint=431)
    if b"transfer-encoding" in names and b"content-length" in names:
        raise h11.RemoteProtocolError("both Content-Length and Transfer-Encoding")
    if b"transfer-encoding" in names and request.http_version != b"1.1":
        raise h11.RemoteProtocolError("Transfer-Encoding needs HTTP/1.1")


@final
class HttpProtocol(H11Protocol):
    """One connection."""

    head_timeout_s = HEAD_TIMEOUT_S
    read_timeout_s = READ_TIMEOUT_S

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Called by asyncio."""
        self._head_timer: asyncio.TimerHandle | None = None
        self._read_timer: asyncio.TimerHandle | None = None
        limit = self.config.h11_max_incomplete_event_size
        assert limit is not None, "the server sets it"
        self.conn = StrictConnection(h11.SERVER, limit)
        most, self.limit_concurrency = self.limit_concurrency, None  # the library would count in its own way
        super().connection_made(transport)
        self._expect_head()
        if most is not None and len(self.connections) > most and not self._close_idle():
            self._refuse(503, f"The server has {most} connections and takes no more. Try again later.")

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by asyncio. uvicorn forgets its timer after a reset, which would keep everything for 75 s."""
        self._stop_timer()
        self._stop_read_timer()
        self._unset_keepalive_if_required()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Called by asyncio when the client has not read for a while. Handlers wait, and what they have is merged."""
        super().pause_writing()
        self._expect_reading()

    def resume_writing(self) -> None:
        """Called by asyncio when it has."""
        self._stop_read_timer()
        super().resume_writing()

    @property
    def is_idle(self) -> bool:
        """Whether an answer has been sent and no next request has begun to come."""
        is_between = self.conn.our_state is h11.IDLE and self.conn.their_state is h11.IDLE
        return self.cycle is not None and is_between and not self.conn.trailing_data[0]

    def _close_idle(self) -> bool:
        """Close another connection that nobody waits for, if there is one."""
        for connection in self.connections:
            if isinstance(connection, HttpProtocol) and connection.is_idle and not connection.transport.is_closing():
                connection.timeout_keep_alive_handler()
                return True
        return False

    def data_received(self, data: bytes) -> None:
        """Called by asyncio. Bytes that come in drops do not make the time for a head longer."""
        if self._head_timer is None and self.conn.their_state is h11.IDLE:
            self._expect_head()
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._stop_timer()

    def on_response_complete(self) -> None:
        """Called by uvicorn. The beginning of a next head may be here already."""
        super().on_response_complete()
        if self._read_timer is None and self.transport.get_write_buffer_size():
            self._expect_reading()
        is_begun = self.conn.their_state is h11.IDLE and self.conn.trailing_data[0]
        if is_begun and self._head_timer is None and not self.transport.is_closing():
            self._expect_head()

    def send_400_response(self, msg: str) -> None:
        """Called by uvicorn, which does not say what was wrong: answer, if that is still possible, and close."""
        assert isinstance(self.conn, StrictConnection), "made in connection_made"
        refusal = self.conn.refusal
        why, status = (str(refusal), refusal.error_status_hint) if refusal is not None else (msg, 400)
        self._refuse(status, f"The request is not HTTP/1.1 as it is spoken here: {why}.")

    def _refuse(self, status: int, message: str) -> None:
        self._stop_timer()
        if self.cycle is not None:  # the handler, if one runs, finds its client gone
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self.transport.is_closing():
            return
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            kind = "overloaded_error" if status == 503 else "invalid_request_error"
            body = msgspec.json.encode({"error": {"message": message, "type": kind, "param": None, "code": status}})
            length = (b"content-length", str(len(body)).encode())
            headers = [(b"content-type", b"application/json"), length, _CLOSING]
            response = h11.Response(status_code=status, headers=headers, reason=_REASONS.get(status, b""))
            for event in (response, h11.Data(data=body), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _expect_head(self) -> None:
        self._head_timer = self.loop.call_later(self.head_timeout_s, self._give_up)

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _give_up(self) -> None:
        self._head_timer = None
        log.info("a connection is closed: its request did not arrive in time", timeout_s=self.head_timeout_s)
        self._refuse(408, f"The head of the request did not arrive within {self.head_timeout_s:.0f} s.")

    def _expect_reading(self) -> None:
        if self._read_timer is None:
            self._read_timer = self.loop.call_later(self.read_timeout_s, self._cut_off)

    def _stop_read_timer(self) -> None:
        if self._read_timer is not None:
            self._read_timer.cancel()
            self._read_timer = None

    def _cut_off(self) -> None:
        self._read_timer = None
        if not self.transport.get_write_buffer_size():
            return
        log.info("a connection is cut off: its client does not read", timeout_s=self.read_timeout_s)
        record = self.scope.get("pelton.record") if self.scope is not None else None
        if isinstance(record, RequestRecord):
            record.leave_reason = TOO_SLOW
        self.transport.abort()
