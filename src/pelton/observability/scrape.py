"""Turns the counts of the server and the newest figures of the engine into metrics, whenever somebody scrapes.

Invariant: nothing here is state; every sample is read in the one call of `collect`, on the event loop, so the samples
of a scrape are of one moment and agree with each other. Costs about a millisecond.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Final, Protocol, final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from pelton.observability import bucket
from pelton.observability.ledger import Ledger, TenantCounts

LABELS: Final = ("model_name", "engine")


class EngineFigures(Protocol):
    """What is read of the engine's statistics. Counters must not go backwards when the engine is replaced."""

    @property
    def num_running(self) -> int: ...
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
    @property
    def num_step_tokens(self) -> int: ...
    @property
    def step_tokens(self) -> tuple[int, ...]: ...
    @property
    def is_up(self) -> bool: ...
    @property
    def num_restarts(self) -> int: ...


@final
@dataclass(slots=True)
class HttpCounts:
    """HTTP requests of every route; received = in progress + answered."""

    num_received: int = 0
    num_in_progress: int = 0
    answered: Counter[tuple[str, int]] = field(default_factory=Counter)  # route and status

    def begin(self) -> None:
        """A request has come."""
        self.num_received += 1
        self.num_in_progress += 1

    def end(self, route: str, status: int) -> None:
        """It has been answered, or its client has left."""
        self.num_in_progress -= 1
        self.answered[route, status] += 1


@final
@dataclass(slots=True, kw_only=True)
class ServerFigures:
    """What is read of the server."""

    ledger: Ledger
    http: HttpCounts
    overload_level: int = 0


@final
class Scrape(Collector):
    """A collector for a registry."""

    def __init__(
        self,
        labels: tuple[str, str],
        get_figures: Callable[[], EngineFigures],
        server: ServerFigures,
        cache_info: dict[str, object],
    ) -> None:
        self._labels = labels
        self._get_figures = get_figures
        self._server = server
        self._cache_info = cache_info

    def collect(self) -> Iterator[Metric]:
        """Called by the registry."""
        figures = self._get_figures()
        yield from self._requests(figures)
        yield from self._tenants()
        for name, help, read in GAUGES:
            yield self._gauge(name, help, read(figures))
        for name, help, read in COUNTERS:
            yield self._counter(name, help, [((), read(figures))])
        yield self._step_tokens(figures)
        yield self._gauge("overload_level", OVERLOAD, self._server.overload_level)
        info = GaugeMetricFamily(
            "pelton:cache_config_info", "How the KV cache is set up.", labels=(*LABELS, *self._cache_info)
        )
        info.add_metric((*self._labels, *map(str, self._cache_info.values())), 1)
        yield info

    def _requests(self, figures: EngineFigures) -> Iterator[Metric]:
        ledger, http = self._server.ledger, self._server.http
        num_running, num_waiting = ledger.split_live(figures.num_running)
        yield self._gauge("num_requests_running", "Answers that steps compute.", num_running)
        yield self._gauge("num_requests_waiting", "Answers that are prepared or queued.", num_waiting)
        yield self._counter("requests_received", "Answers asked for.", [((), ledger.num_received)])
        finished = [((reason,), count) for reason, count in ledger.finished.items()]
        yield self._counter("request_success", "Answers that have ended.", finished, ("finished_reason",))
        refused = [((stage, str(status)), count) for (stage, status), count in ledger.refused.items()]
        yield self._counter("requests_refused", "Answers refused before a token.", refused, ("stage", "status"))
        num_late = ledger.finished["deadline"] + sum(n for (_, status), n in ledger.refused.items() if status == 504)
        yield self._counter("deadlines_exceeded", "Answers ended or refused for a deadline.", [((), num_late)])
        yield self._counter("http_requests_received", "HTTP requests.", [((), http.num_received)])
        yield self._gauge("http_requests_in_progress", "HTTP requests not answered yet.", http.num_in_progress)
        answered = [((route, str(status)), count) for (route, status), count in http.answered.items()]
        yield self._counter("http_requests", "HTTP requests answered.", answered, ("route", "status"))

    def _tenants(self) -> Iterator[Metric]:
        tenants = self._server.ledger.tenants
        live = GaugeMetricFamily("pelton:tenant_requests_live", TENANT_LIVE, labels=(*LABELS, "tenant"))
        for tenant, counts in tenants.items():
            live.add_metric((*self._labels, tenant), counts.num_live)
        yield live
        for name, help, read in TENANT_COUNTERS:
            samples = [((tenant,), read(counts)) for tenant, counts in tenants.items()]
            yield self._counter(name, help, samples, ("tenant",))

    def _step_tokens(self, figures: EngineFigures) -> Metric:
        counts = figures.step_tokens or (0,) * (len(bucket.STEP_TOKENS) + 1)
        borders = [*map(str, map(float, bucket.STEP_TOKENS)), "+Inf"]
        buckets = list(zip(borders, map(float, accumulate(counts)), strict=True))
        histogram = HistogramMetricFamily("pelton:iteration_tokens_total", "Tokens of a step.", labels=LABELS)
        histogram.add_metric(self._labels, buckets, figures.num_step_tokens)
        return histogram

    def _gauge(self, name: str, help: str, value: float) -> Metric:
        gauge = GaugeMetricFamily(f"pelton:{name}", help, labels=LABELS)
        gauge.add_metric(self._labels, value)
        return gauge

    def _counter(
        self,
        name: str,
        help: str,
        samples: Sequence[tuple[tuple[str, ...], float]],
        labels: tuple[str, ...] = (),
    ) -> Metric:
        counter = CounterMetricFamily(f"pelton:{name}", help, labels=(*LABELS, *labels))
        for values, value in samples:
            counter.add_metric((*self._labels, *values), value)
        return counter


OVERLOAD: Final = "How far the server has stepped back under load; 0 is not at all."
TENANT_LIVE: Final = "Answers of a tenant that run or wait."
GAUGES: Final[tuple[tuple[str, str, Callable[[EngineFigures], float]], ...]] = (
    ("engine_up", "1 while there is an engine that can be trusted with a request.", lambda f: f.is_up),
    (
        "kv_cache_usage_perc",
        "Share of KV blocks in use; 1 is all.",
        lambda f: 1 - f.num_free_blocks / f.num_blocks if f.num_blocks else 0.0,
    ),
)
COUNTERS: Final[tuple[tuple[str, str, Callable[[EngineFigures], float]], ...]] = (
    ("engine_restarts", "Engines that were started in place of one that was gone.", lambda f: f.num_restarts),
    ("num_steps", "Steps of the engine.", lambda f: f.num_steps),
    ("num_preemptions", "Requests set back to make room.", lambda f: f.num_preemptions),
    ("prompt_tokens", "Prompt tokens computed.", lambda f: f.num_prompt_tokens),
    ("generation_tokens", "Tokens generated.", lambda f: f.num_generation_tokens),
    ("prefix_cache_queries", "Tokens looked up in the prefix cache.", lambda f: f.num_prefix_queries),
    ("prefix_cache_hits", "Tokens found in the prefix cache.", lambda f: f.num_prefix_hits),
)
TENANT_COUNTERS: Final[tuple[tuple[str, str, Callable[[TenantCounts], float]], ...]] = (
    ("tenant_requests_received", "Answers a tenant asked for.", lambda c: c.num_received),
    ("tenant_requests_finished", "Answers of a tenant that have ended.", lambda c: c.num_finished),
    ("tenant_requests_refused", "Answers of a tenant that were refused.", lambda c: c.num_refused),
    ("tenant_prompt_tokens", "Prompt tokens in the usage of a tenant.", lambda c: c.num_prompt_tokens),
    ("tenant_cached_tokens", "Those of them that were not computed again.", lambda c: c.num_cached_tokens),
    ("tenant_generation_tokens", "Output tokens in the usage of a tenant.", lambda c: c.num_output_tokens),
)
