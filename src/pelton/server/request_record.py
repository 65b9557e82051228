"""What is known of one HTTP request once it is over, for the access log, the metrics and the traces.

Invariant: what it says of a request is never a prompt, an answer or a key (`headers` are for finding the trace only).
There is one record for each request, reachable from its tasks through a context variable; whoever knows something
fills it in, and the border reads it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, final

from starlette.types import Scope

from pelton.errors import InternalError
from pelton.observability.metrics import FinishedRequest, Metrics

if TYPE_CHECKING:
    from pelton.server.admission import Held
    from pelton.server.tally import Tally

STATUS_CLIENT_GONE: Final = 499  # nginx's; seen in the log and in metrics only
GENERATION_PATHS: Final = frozenset({"/v1/chat/completions", "/v1/completions", "/v1/prefixes"})
UNKNOWN_ROUTE: Final = "other"

_record: ContextVar[RequestRecord | None] = ContextVar("pelton_request_record", default=None)


@final
@dataclass(slots=True, kw_only=True)
class RequestRecord:
    """One request. `tally` is there once it is known how many answers it wants."""

    request_id: str
    method: str
    path: str
    headers: dict[bytes, bytes] = field(repr=False)
    start_s: float = field(default_factory=time.monotonic)
    start_ns: int = field(default_factory=time.time_ns)  # of the calendar, at start_s
    end_s: float = 0.0
    tenant: str = ""
    stage: str = ""  # where it was refused, if the status does not say so
    status: int = 0
    route: str = UNKNOWN_ROUTE
    tally: Tally | None = None
    held: Held | None = None  # the room it has at the gate
    leave_reason: str = "abort"  # how its answers end if its client is gone before they are whole

    @property
    def duration_s(self) -> float:
        """From the request's head to the end of its answer."""
        return self.end_s - self.start_s

    def end(self, scope: Scope, status: int, metrics: Metrics | None) -> None:
        """The answer has been sent, or the client has left. Counts a generation that was refused before its tally."""
        self.end_s = time.monotonic()
        self.status = status = status or STATUS_CLIENT_GONE
        self.route = find_route(scope)
        if metrics is None:
            return
        metrics.http.end(self.route, status)
        is_generation = self.method == "POST" and self.path in GENERATION_PATHS
        if is_generation and self.tally is None:
            self._count_without_tally(metrics)

    def _count_without_tally(self, metrics: Metrics) -> None:
        """A request that ended before it was known how many answers it wants counts as one."""
        metrics.ledger.receive(1, self.tenant)
        if self.status not in (500, STATUS_CLIENT_GONE):
            metrics.ledger.refuse(1, self.stage or guess_stage(self.status), self.status, self.tenant)
            return
        metrics.count_finished(
            FinishedRequest(
                finished_reason="error" if self.status == 500 else self.leave_reason,
                num_prompt_tokens=0,
                num_output_tokens=0,
                e2e_s=self.duration_s,
                tenant=self.tenant,
            )
        )

    def log_fields(self) -> dict[str, Any]:
        """What the access log says beyond method, path and status."""
        fields: dict[str, Any] = {"tenant": self.tenant} if self.tenant else {}
        return fields | (self.tally.log_fields() if self.tally is not None else {})


def guess_stage(status: int) -> str:
    """Where a request was refused that did not come as far as a tally.

    >>> guess_stage(401), guess_stage(429), guess_stage(400)
    ('auth', 'reserve', 'request')
    """
    if status in (401, 403):
        return "auth"
    return "reserve" if status in (429, 503, 504) else "request"


def find_route(scope: Scope) -> str:
    """The route that handled a request, as it is declared; paths that clients make up are one."""
    app, endpoint = scope.get("app"), scope.get("endpoint")
    if app is not None and endpoint is not None:
        for row in app.state.routes:
            if row.handler is endpoint:
                return str(row.path)
    return UNKNOWN_ROUTE


def current_record() -> RequestRecord | None:
    """The record of the request that this task works for."""
    return _record.get()


def current_tenant() -> str:
    """Whose request this task works for; empty if it is nobody's."""
    record = _record.get()
    return "" if record is None else record.tenant


def current_held() -> Held:
    """The room that this task's request holds. Raises InternalError if it came in by another way than the gate."""
    record = _record.get()
    if record is None or record.held is None:
        raise InternalError("server: a request holds no room. Please report this.")
    return record.held


@contextmanager
def recording(record: RequestRecord) -> Iterator[None]:
    """Tasks started inside work for `record`."""
    token = _record.set(record)
    try:
        yield
    finally:
        _record.reset(token)
