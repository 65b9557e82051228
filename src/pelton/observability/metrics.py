"""Prometheus metrics under `pelton:`, with the names that dashboards of this field already use.

Invariant: figures of the engine are read when somebody scrapes and never kept here, so they cannot go stale; they start
again at 0 with the engine process, which Prometheus understands. What concerns a finished request is counted once.
Lives in the server process. Owns its registry; there is no global one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Protocol, final

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from pelton.observability import bucket

_LABELS: Final = ("model_name", "engine")
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


class EngineFigures(Protocol):
    """What is read of the engine's statistics."""

    @property
    def num_running(self) -> int: ...
    @property
    def num_waiting(self) -> int: ...
    @property
    def num_blocks(self) -> int: ...
    @property
    def num_free_blocks(self) -> int: ...
    @property
    def num_steps(self) -> int: ...
    @property
    def num_preemptions(self) -> int: ...
    @property
    def num_prompt_tokens(self) -> int: ...
    @property
    def num_generation_tokens(self) -> int: ...
    @property
    def num_prefix_queries(self) -> int: ...
    @property
    def num_prefix_hits(self) -> int: ...


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


@final
class Metrics:
    """The registry of one server."""

    def __init__(
        self, model_name: str, get_figures: Callable[[], EngineFigures], cache_info: Mapping[str, object] | None = None
    ) -> None:
        """`get_figures` is called at each scrape and must not block; `cache_info` is shown as labels."""
        prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]
        self._labels = (model_name, "0")
        self._registry = CollectorRegistry()
        self._registry.register(_EngineCollector(self._labels, get_figures, dict(cache_info or {})))
        self._success = Counter(
            "pelton:request_success",
            "Requests that have been answered.",
            (*_LABELS, "finished_reason"),
            registry=self._registry,
        )
        self._histograms = {name: self._histogram(name, *about) for name, about in HISTOGRAMS.items()}

    def count_finished(self, request: FinishedRequest) -> None:
        """Count a request that has ended, however it ended. Once for each choice."""
        self._success.labels(*self._labels, request.finished_reason).inc()
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

    def render(self) -> bytes:
        """The body of GET /metrics, of type CONTENT_TYPE."""
        return prometheus_client.generate_latest(self._registry)

    def _histogram(self, name: str, help: str, buckets: tuple[float, ...]) -> Histogram:
        histogram = Histogram(f"pelton:{name}", help, _LABELS, buckets=buckets, registry=self._registry)
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

_GAUGES: Final[tuple[tuple[str, str, Callable[[EngineFigures], float]], ...]] = (
    ("num_requests_running", "Requests that steps compute.", lambda f: f.num_running),
    ("num_requests_waiting", "Requests that wait for memory or a place.", lambda f: f.num_waiting),
    (
        "kv_cache_usage_perc",
        "Share of KV blocks in use; 1 is all.",
        lambda f: 1 - f.num_free_blocks / f.num_blocks if f.num_blocks else 0.0,
    ),
)
_COUNTERS: Final[tuple[tuple[str, str, Callable[[EngineFigures], float]], ...]] = (
    ("num_steps", "Steps of the engine.", lambda f: f.num_steps),
    ("num_preemptions", "Requests set back to make room.", lambda f: f.num_preemptions),
    ("prompt_tokens", "Prompt tokens computed.", lambda f: f.num_prompt_tokens),
    ("generation_tokens", "Tokens generated.", lambda f: f.num_generation_tokens),
    ("prefix_cache_queries", "Tokens looked up in the prefix cache.", lambda f: f.num_prefix_queries),
    ("prefix_cache_hits", "Tokens found in the prefix cache.", lambda f: f.num_prefix_hits),
)


@final
class _EngineCollector(Collector):
    """Turns the engine's newest figures into metrics whenever somebody scrapes."""

    def __init__(
        self, labels: tuple[str, str], get_figures: Callable[[], EngineFigures], cache_info: dict[str, object]
    ) -> None:
        self._labels = labels
        self._get_figures = get_figures
        self._cache_info = cache_info

    def collect(self) -> Iterator[Metric]:
        """Called by the registry."""
        figures = self._get_figures()
        for name, help, read in _GAUGES:
            gauge = GaugeMetricFamily(f"pelton:{name}", help, labels=_LABELS)
            gauge.add_metric(self._labels, read(figures))
            yield gauge
        for name, help, read in _COUNTERS:
            counter = CounterMetricFamily(f"pelton:{name}", help, labels=_LABELS)
            counter.add_metric(self._labels, read(figures))
            yield counter
        info = GaugeMetricFamily(
            "pelton:cache_config_info", "How the KV cache is set up.", labels=(*_LABELS, *self._cache_info)
        )
        info.add_metric((*self._labels, *map(str, self._cache_info.values())), 1)
        yield info
