"""Spans of requests: what they say, what they belong to, and that nobody waits for them."""

from __future__ import annotations

import asyncio
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from tests.api.fakes import ANSWER, FakeEngineClient
from tests.server.http import call, in_memory, make_state

from pelton.errors import ConfigError
from pelton.server.request_record import RequestRecord
from pelton.server.request_times import RequestTimes
from pelton.server.state import ServerState
from pelton.server.tracing import CLOSE_TIMEOUT_S, MAX_QUEUE, Tracing, list_parts, start_tracing

pytest.importorskip("opentelemetry.sdk", reason="the extra `otel` is not installed")
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

pytestmark = pytest.mark.cpu  # threads and sockets
TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SECRET = "sk-very-secret"


@contextmanager
def traced(client: FakeEngineClient | None = None, **settings: Any) -> Iterator[tuple[ServerState, Tracing, Any]]:
    exporter = InMemorySpanExporter()
    tracing = Tracing(exporter)
    state = make_state(client, **settings)
    state.on_request_end = partial(tracing.record, model_name=state.model_name)
    try:
        yield state, tracing, exporter
    finally:
        tracing.close()


def spans_of(*args: Any, client: FakeEngineClient | None = None, **more: Any) -> dict[str, ReadableSpan]:
    """The spans of one request, by name."""
    with traced(client) as (state, tracing, exporter):
        call(*args, state=state, **more)
        tracing.flush()
        return {span.name: span for span in exporter.get_finished_spans()}


@pytest.mark.parametrize("stream", [False, True])
def test_a_request_is_a_span_with_its_parts_inside(stream: bool) -> None:
    body = {"messages": [{"role": "user", "content": "private words"}], "stream": stream, "max_tokens": 50}
    headers = {"traceparent": f"00-{TRACE}-{PARENT}-01", "x-request-id": "abc-1"}
    spans = spans_of("POST", "/v1/chat/completions", json=body, headers=headers)
    assert set(spans) == {"POST /v1/chat/completions", "queue", "prefill", "decode"}
    whole = spans["POST /v1/chat/completions"]
    assert whole.kind is SpanKind.SERVER
    assert f"{whole.context.trace_id:032x}" == TRACE
    assert whole.parent is not None
    assert f"{whole.parent.span_id:016x}" == PARENT
    assert whole.attributes is not None
    found = dict(whole.attributes)
    assert found["http.response.status_code"] == 200
    assert found["gen_ai.operation.name"] == "chat"
    assert found["gen_ai.request.model"] == "tiny"
    assert found["gen_ai.request.max_tokens"] == 50
    assert found["gen_ai.response.finish_reasons"] == ("stop",)
    assert found["gen_ai.usage.output_tokens"] == len(ANSWER) + 1
    assert found["gen_ai.usage.cache_read.input_tokens"] == 1
    assert found["pelton.request_id"] == "abc-1"
    assert not any("private" in str(value) or "Hello" in str(value) for value in found.values())
    for name, duration_s in (("queue", 0.5), ("prefill", 0.5), ("decode", 1.0)):
        part = spans[name]
        assert part.parent is not None
        assert part.parent.span_id == whole.context.span_id
        assert part.start_time is not None
        assert part.end_time is not None
        assert (part.end_time - part.start_time) / 1e9 == pytest.approx(duration_s, abs=1e-6)
    assert whole.status.status_code is StatusCode.UNSET


def test_a_trace_that_is_not_sampled_is_left_alone() -> None:
    body, headers = {"prompt": "a"}, {"traceparent": f"00-{TRACE}-{PARENT}-00"}
    assert spans_of("POST", "/v1/completions", json=body, headers=headers) == {}


@pytest.mark.parametrize("header", ["", "garbage", f"00-{'0' * 32}-{PARENT}-01", "00-" + "f" * 4000, "\u00ff"])
def test_a_traceparent_that_is_none_begins_a_new_trace(header: str) -> None:
    (span,) = spans_of("GET", "/health", headers={"traceparent": header.encode("latin-1")}).values()
    assert span.parent is None
    assert span.name == "GET /health"


def test_failures_are_marked() -> None:
    client = FakeEngineClient()
    client.fail_after = 0
    span = spans_of("POST", "/v1/completions", client=client, json={"prompt": "a"})["POST /v1/completions"]
    assert span.status.status_code is StatusCode.ERROR
    assert span.attributes is not None
    assert span.attributes["error.type"] == "500"
    span = spans_of("POST", "/v1/completions", json={"prompt": 1})["POST /v1/completions"]
    assert span.status.status_code is StatusCode.UNSET  # the client's mistake


def test_keys_are_in_no_span() -> None:
    with traced(api_key=SECRET) as (state, tracing, exporter):
        for key in (SECRET, "wrong"):
            headers = {"authorization": f"Bearer {key}", "tracestate": "a=b"}
            call("POST", "/v1/completions", state=state, json={"prompt": "a"}, headers=headers)
        tracing.flush()
        text = "".join(span.to_json() for span in exporter.get_finished_spans())
    assert "401" in text
    assert SECRET not in text


def test_parts_that_did_not_happen_are_none() -> None:
    assert list_parts(RequestTimes(arrival_s=1.0)) == []
    assert list_parts(RequestTimes(arrival_s=1.0, first_scheduled_s=0.5)) == [("queue", 1.0, 1.0)]


class Stuck(InMemorySpanExporter):
    """An exporter that hangs."""

    def __init__(self) -> None:
        super().__init__()
        self.release = threading.Event()

    def export(self, spans: Any) -> SpanExportResult:
        self.release.wait(20)
        return SpanExportResult.FAILURE


def test_nobody_waits_for_an_exporter_that_hangs() -> None:
    async def run() -> None:
        exporter = Stuck()
        tracing = Tracing(exporter)
        state = make_state()
        state.on_request_end = partial(tracing.record, model_name="tiny")
        start_s = time.monotonic()
        async with in_memory(state) as http:
            for _ in range(40):
                assert (await http.post("/v1/completions", json={"prompt": "a", "max_tokens": 2})).status_code == 200
        record = RequestRecord(request_id="a", method="GET", path="/", headers={})
        for _ in range(2 * MAX_QUEUE):
            tracing.record(record, model_name="tiny")
        assert time.monotonic() - start_s < 10
        start_s = time.monotonic()
        tracing.close()
        assert time.monotonic() - start_s < CLOSE_TIMEOUT_S + 1
        exporter.release.set()

    asyncio.run(run())


class Collector(BaseHTTPRequestHandler):
    """Takes spans, as bytes."""

    bodies: list[bytes]

    def do_POST(self) -> None:
        self.bodies.append(self.rfile.read(int(self.headers["content-length"])))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


def test_spans_reach_a_collector() -> None:
    Collector.bodies = []
    with HTTPServer(("127.0.0.1", 0), Collector) as server:
        serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        serving.start()
        try:
            tracing = start_tracing(f"http://127.0.0.1:{server.server_port}/v1/traces")
            state = make_state()
            state.on_request_end = partial(tracing.record, model_name="tiny")
            call("POST", "/v1/completions", state=state, json={"prompt": "a"})
            tracing.close()
        finally:
            server.shutdown()
            serving.join()
    assert b"gen_ai.usage.output_tokens" in b"".join(Collector.bodies)


def test_a_collector_that_is_not_there_breaks_nothing() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # nobody listens
        tracing = start_tracing(f"http://127.0.0.1:{taken.getsockname()[1]}/v1/traces")
        state = make_state()
        state.on_request_end = partial(tracing.record, model_name="tiny")
        assert call("POST", "/v1/completions", state=state, json={"prompt": "a"}).status_code == 200
        tracing.close()


def test_an_endpoint_that_is_no_url_is_refused() -> None:
    with pytest.raises(ConfigError, match="http://localhost:4318"):
        start_tracing("localhost:4318")


def test_without_the_packages_the_flag_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    with pytest.raises(ConfigError, match=r"pip install 'pelton\[otel\]'"):
        start_tracing("http://localhost:4318/v1/traces")
