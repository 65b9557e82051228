"""OpenTelemetry spans: one for each HTTP request, with one inside for its wait, its prefill and its decoding.

Invariant: spans are made when the request is over, from what is known of it then, so tracing costs nothing while tokens
flow. They go into a bounded queue that a thread of its own empties; when it is full, or nobody listens at the endpoint,
spans are dropped and requests are not held up. No prompt, answer, key or header is in a span. Attributes are those of
the semantic conventions `http.*` and `gen_ai.*`. The packages are an extra: only `start_tracing` imports them.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final, final

from pelton import __version__
from pelton.errors import ConfigError
from pelton.server.request_record import RequestRecord
from pelton.server.request_times import RequestTimes

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter

MAX_QUEUE: Final = 2048  # spans; about a thousand bytes each
EXPORT_TIMEOUT_S: Final = 5.0
CLOSE_TIMEOUT_S: Final = 2.0
OPERATIONS: Final = {"/v1/chat/completions": "chat", "/v1/completions": "text_completion"}


@final
class Tracing:
    """Hears of requests that are over (`record`) and sends their spans to `exporter`. `close` it at the end."""

    def __init__(self, exporter: SpanExporter) -> None:
        from opentelemetry import trace  # noqa: PLC0415  an extra
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator  # noqa: PLC0415

        self._trace = trace
        self._propagator = TraceContextTextMapPropagator()
        resource = Resource.create({"service.name": "pelton", "service.version": __version__})
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(exporter, max_queue_size=MAX_QUEUE))
        self._tracer = self._provider.get_tracer("pelton", __version__)

    def record(self, record: RequestRecord, *, model_name: str) -> None:
        """Make the spans of a request to `model_name`. Never blocks."""
        parent = self._propagator.extract(get_carrier(record.headers))
        kind = self._trace.SpanKind.SERVER
        name = f"{record.method} {record.route}"
        attributes = {**describe_http(record), **describe_generation(record, model_name)}
        span = self._tracer.start_span(name, parent, kind, attributes, start_time=record.start_ns)
        problem = find_problem(record)
        if problem is not None:
            span.set_attribute("error.type", problem)
            span.set_status(self._trace.StatusCode.ERROR)
        if record.tally is not None:
            inside = self._trace.set_span_in_context(span)
            for part, start_s, end_s in list_parts(record.tally.times):
                child = self._tracer.start_span(part, inside, start_time=to_calendar(record, start_s))
                child.end(to_calendar(record, end_s))
        span.end(to_calendar(record, record.end_s))

    def flush(self) -> None:
        """Send what is in the queue."""
        self._provider.force_flush()

    def close(self) -> None:
        """Send what is in the queue, for at most CLOSE_TIMEOUT_S."""
        closing = threading.Thread(target=self._provider.shutdown, name="end-tracing", daemon=True)
        closing.start()
        closing.join(CLOSE_TIMEOUT_S)


def start_tracing(endpoint: str) -> Tracing:
    """Send spans to `endpoint`, a URL that takes OTLP over HTTP. Raises ConfigError without the packages for it."""
    if not endpoint.startswith(("http://", "https://")):
        raise ConfigError(
            f"--otlp-traces-endpoint: {endpoint!r}, expected a URL such as http://localhost:4318/v1/traces."
        )
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415

        return Tracing(OTLPSpanExporter(endpoint=endpoint, timeout=EXPORT_TIMEOUT_S))
    except ImportError as error:
        raise ConfigError(
            "--otlp-traces-endpoint: the packages for it are not installed. Run: pip install 'pelton[otel]'"
        ) from error


def get_carrier(headers: dict[bytes, bytes]) -> dict[str, str]:
    """The headers that say of which trace a request is a part, in W3C's words."""
    names = (b"traceparent", b"tracestate")
    return {name.decode(): headers[name].decode("latin-1") for name in names if name in headers}


def describe_http(record: RequestRecord) -> dict[str, Any]:
    """The attributes that every request has."""
    return {
        "http.request.method": record.method,
        "http.route": record.route,
        "http.response.status_code": record.status,
        "pelton.request_id": record.request_id,
    }


def describe_generation(record: RequestRecord, model_name: str) -> dict[str, Any]:
    """The attributes of a request for tokens; none of any other."""
    tally = record.tally
    if tally is None:
        return {}
    usage, times = tally.usage, tally.times
    n, max_tokens = tally.sampling
    found = {
        "gen_ai.operation.name": OPERATIONS.get(record.route),
        "gen_ai.provider.name": "pelton",
        "gen_ai.request.model": model_name,
        "gen_ai.response.model": model_name,
        "gen_ai.request.choice.count": n,
        "gen_ai.request.max_tokens": max_tokens,
        "gen_ai.response.finish_reasons": [reason for reason in tally.finish_reasons if reason],
        "gen_ai.usage.input_tokens": usage["prompt_tokens"],
        "gen_ai.usage.output_tokens": usage["completion_tokens"],
        "gen_ai.usage.cache_read.input_tokens": usage["prompt_tokens_details"]["cached_tokens"],
        "gen_ai.latency.time_in_queue": times.queue_s,
        "gen_ai.latency.time_in_model_prefill": times.prefill_s,
        "gen_ai.latency.time_in_model_decode": times.decode_s,
        "pelton.tenant": record.tenant or None,
        "pelton.num_preemptions": times.num_preemptions,
        "pelton.num_restarts": times.num_restarts,
    }
    return {name: value for name, value in found.items() if value is not None}


def find_problem(record: RequestRecord) -> str | None:
    """What went wrong with a request on this side, in a word; what the client did wrong is none."""
    if record.status >= 500:
        return str(record.status)
    reasons = [] if record.tally is None else record.tally.finish_reasons
    return next((reason for reason in ("error", "deadline") if reason in reasons), None)


def list_parts(times: RequestTimes) -> list[tuple[str, float, float]]:
    """What a request did from when to when, as far as it came."""
    parts = [
        ("queue", times.arrival_s, times.first_scheduled_s),
        ("prefill", times.first_scheduled_s, times.first_token_s),
        ("decode", times.first_token_s, times.last_token_s),
    ]
    return [(name, start_s, max(start_s, end_s)) for name, start_s, end_s in parts if start_s and end_s]


def to_calendar(record: RequestRecord, time_s: float) -> int:
    """Nanoseconds since 1970 of a time on the monotonic clock."""
    return record.start_ns + int((time_s - record.start_s) * 1e9)
