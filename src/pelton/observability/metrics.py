"""Prometheus metrics under `pelton:`, with the names that dashboards of this field already use.

Invariant: everything in one scrape is of one moment, and in each of them received = running + waiting + finished +
refused (see `ledger`). Figures of the engine are read when somebody scrapes and never kept here, so they cannot freeze.
Lives in the server process, on its event loop. Owns its registry; there is no global one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, final

import prometheus_client
from prometheus_client import CollectorRegistry, Histogram

from pelton.observability import bucket
from pelton.observability.ledger import Ledger
from pelton.observability.scrape import LABELS, EngineFigures, HttpCounts, Scrape, ServerFigures

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedRequest:
    """What is counted of a request. Durations in seconds; None where it did not come so far."""

    finished_reason: str
    num_prompt_tokens: int
    num_output_tokens: int
    e2e_s: float  # arrival to last token, as the server saw it
    time_to_first_token_s: float | None = None
    queue_s: float | None = None  # arrival to first scheduled
    prefill_s: float | None = None  # first scheduled to first token
    decode_s: float | None = None  # first token to last token
    n: int = 1
    max_tokens: int | None = None
    tenant: str = ""


@final
class Metrics:
    """The registry of one server, and the counts it shows."""

    def __init__(
        self, model_name: str, get_figures: Callable[[], EngineFigures], cache_info: Mapping[str, object] | None = None
    ) -> None:
        """`get_figures` is called at each scrape and must not block; `cache_info` is shown as labels."""
        prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]
        self.ledger = Ledger()
        self.http = HttpCounts()
        self._server = ServerFigures(ledger=self.ledger, http=self.http)
        self._labels = (model_name, "0")
        self._registry = CollectorRegistry()
        self._registry.register(Scrape(self._labels, get_figures, self._server, dict(cache_info or {})))
        self._histograms = {name: self._histogram(name, *about) for name, about in HISTOGRAMS.items()}

    def count_finished(self, request: FinishedRequest) -> None:
        """Count an answer that has ended, however it ended. It must have been received by the ledger."""
        self.ledger.finish(request.finished_reason, request.tenant)
        tokens_after_first = request.num_output_tokens - 1
        per_token_s = None
        if request.decode_s is not None and tokens_after_first > 0:
            per_token_s = request.decode_s / tokens_after_first
        inference_s = None
        if request.prefill_s is not None:
            inference_s = request.prefill_s + (request.decode_s or 0.0)
        self._observe("time_to_first_token_seconds", request.time_to_first_token_s)
        self._observe("request_time_per_output_token_seconds", per_token_s)
        self._observe("e2e_request_latency_seconds", request.e2e_s)
        self._observe("request_queue_time_seconds", request.queue_s)
        self._observe("request_inference_time_seconds", inference_s)
        self._observe("request_prefill_time_seconds", request.prefill_s)
        self._observe("request_decode_time_seconds", request.decode_s)
        self._observe("request_prompt_tokens", request.num_prompt_tokens)
        self._observe("request_generation_tokens", request.num_output_tokens)
        self._observe("request_params_n", request.n)
        self._observe("request_params_max_tokens", request.max_tokens)

    def observe_inter_token(self, duration_s: float) -> None:
        """Count the time between two tokens of one request."""
        self._observe("inter_token_latency_seconds", duration_s)

    def set_overload_level(self, level: int) -> None:
        """How far the server has stepped back under load: 0 is not at all."""
        self._server.overload_level = level

    def render(self) -> bytes:
        """The body of GET /metrics, of type CONTENT_TYPE."""
        return prometheus_client.generate_latest(self._registry)

    def _histogram(self, name: str, help: str, buckets: tuple[float, ...]) -> Histogram:
        histogram = Histogram(f"pelton:{name}", help, LABELS, buckets=buckets, registry=self._registry)
        return histogram.labels(*self._labels)  # makes the series, so that it is scraped before the first request

    def _observe(self, name: str, value: float | None) -> None:
        if value is not None:
            self._histograms[name].observe(value)


HISTOGRAMS: Final[dict[str, tuple[str, tuple[float, ...]]]] = {
    "time_to_first_token_seconds": ("Arrival to first token.", bucket.FIRST_TOKEN_S),
    "inter_token_latency_seconds": ("From one token of a request to its next.", bucket.TOKEN_S),
    "request_time_per_output_token_seconds": ("Mean of a request's tokens after the first.", bucket.TOKEN_S),
    "e2e_request_latency_seconds": ("Arrival to last token.", bucket.REQUEST_S),
    "request_queue_time_seconds": ("Arrival to the first step.", bucket.REQUEST_S),
    "request_inference_time_seconds": ("First step to last token.", bucket.REQUEST_S),
    "request_prefill_time_seconds": ("First step to first token.", bucket.REQUEST_S),
    "request_decode_time_seconds": ("First token to last token.", bucket.REQUEST_S),
    "request_prompt_tokens": ("Tokens of the prompt.", bucket.TOKENS),
    "request_generation_tokens": ("Tokens of the answer.", bucket.TOKENS),
    "request_params_n": ("Answers asked for.", bucket.CHOICES),
    "request_params_max_tokens": ("Longest answer asked for.", bucket.TOKENS),
}
