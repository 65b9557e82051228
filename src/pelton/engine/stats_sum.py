"""Figures of an engine over all the processes that have been that engine.

Invariant: counters never go backwards. An engine process counts from 0; when it is gone, what it had counted is added
to what is kept here, and its gauges are gone with it. Belongs to the event loop of the client.
"""

from __future__ import annotations

from itertools import zip_longest
from typing import Final, final

import msgspec

from pelton.core.outputs import EngineStats

COUNTERS: Final = (
    "num_steps",
    "num_preemptions",
    "num_prompt_tokens",
    "num_generation_tokens",
    "num_prefix_queries",
    "num_prefix_hits",
    "num_step_tokens",
)


@final
class StatsSum:
    """Give it what engines send; `total` is what holds for all of them together."""

    def __init__(self) -> None:
        self._past = EngineStats()
        self._newest: EngineStats | None = None

    def take(self, stats: EngineStats) -> None:
        """The newest figures of the engine that runs."""
        self._newest = stats

    def end_engine(self) -> None:
        """The engine is gone: keep its counters, forget its gauges."""
        self._past = _add_counters(EngineStats(), self._past, self._newest or EngineStats())
        self._newest = None

    def total(self, *, is_up: bool = True, num_restarts: int = 0) -> EngineStats:
        """Gauges of the newest engine and counters of all. O(counters)."""
        newest = self._newest or EngineStats()
        whole = _add_counters(newest, self._past, newest)
        return msgspec.structs.replace(whole, is_up=is_up, num_restarts=num_restarts)


def _add_counters(gauges: EngineStats, first: EngineStats, second: EngineStats) -> EngineStats:
    """`gauges` with the counters of both others."""
    sums = {name: getattr(first, name) + getattr(second, name) for name in COUNTERS}
    step_tokens = tuple(a + b for a, b in zip_longest(first.step_tokens, second.step_tokens, fillvalue=0))
    return msgspec.structs.replace(gauges, **sums, step_tokens=step_tokens)
