"""The scheduler in the field without a machine: requests arrive, steps take the time that a formula says.

The scheduler, the pool and the prefix tree are the engine's own; the clock is a number that steps move on. Requests
come from an iterator, so a day needs the memory of what is live. Everything follows from the arrivals, so the same
day gives the same schedule. About 2,000 steps a second.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, final

from pelton.core.outputs import RequestOutput
from pelton.core.step import ModelRunnerOutput, NewRequest, RequestId, SampledToken, SchedulerOutput
from pelton.engine.scheduler import Scheduler
from pelton.errors import ConfigError, RequestError

UNITS: Final = {"step_ms": 1e-3, "token_us": 1e-6, "prompt_us": 1e-6}


@dataclass(frozen=True, slots=True)
class Arrival:
    """A request, when it comes, and when its client leaves, if it does."""

    at_s: float
    request: NewRequest
    leaves_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a step takes: a part for itself, one for each request that extends itself, one for each token of prompts."""

    step_s: float
    token_s: float
    prompt_token_s: float

    @staticmethod
    def parse(text: str) -> Cost:
        """From `step_ms=8,token_us=1400,prompt_us=1200`. Raises ConfigError."""
        values = dict.fromkeys(UNITS, 0.0)
        for part in filter(None, text.split(",")):
            name, _, value = part.partition("=")
            try:
                values[name] = float(value) * UNITS[name]
            except (KeyError, ValueError):
                values["?"] = 0.0
        if len(values) > len(UNITS) or not 0.0 < sum(values.values()) < float("inf") or min(values.values()) < 0.0:
            raise ConfigError(
                f"--cost: {text!r} is no cost, expected for example step_ms=8,token_us=1400,prompt_us=1200."
            )
        return Cost(step_s=values["step_ms"], token_s=values["token_us"], prompt_token_s=values["prompt_us"])

    def measure_s(self, step: SchedulerOutput) -> float:
        """Seconds of a step, its repeats included."""
        num_single = sum(part.num_scheduled_tokens == 1 for part in step.scheduled)
        num_tokens = sum(part.num_scheduled_tokens for part in step.scheduled)
        once_s = self.step_s + self.token_s * num_single + self.prompt_token_s * (num_tokens - num_single)
        return once_s * step.repeat


class Observer:
    """Hears of everything that happens in a simulation. This one does not mind."""

    def come(self, new: NewRequest, now_s: float) -> None:
        """A request was added."""

    def see(self, step: SchedulerOutput, now_s: float) -> None:
        """A step has been computed; its outputs come next."""

    def take(self, output: RequestOutput, now_s: float) -> None:
        """A request got tokens, or ended."""


@final
class Simulation:
    """A scheduler, those who use it, and a clock. `choose` makes a token of the last one and the number of tokens."""

    def __init__(
        self,
        scheduler: Scheduler,
        arrivals: Iterable[Arrival],
        cost: Cost,
        observer: Observer,
        choose: Callable[[RequestId, int, int], int] = lambda request_id, last_token_id, num_tokens: last_token_id + 1,
    ) -> None:
        self.scheduler = scheduler
        self.now_s = 0.0
        self.num_refused = 0
        self._arrivals = iter(arrivals)
        self._next = next(self._arrivals, None)
        self._cost = cost
        self._choose = choose
        self._leaving: list[tuple[float, RequestId]] = []
        self._known: dict[RequestId, tuple[int, int]] = {}  # number of tokens and the last of them
        self._observer = observer

    def steps(self) -> Iterator[SchedulerOutput]:
        """Run to the end, yielding every step. `arrivals` must be in order."""
        scheduler = self.scheduler
        while self._next is not None or scheduler.has_work:
            if not scheduler.has_work and self._next is not None:
                self.now_s = max(self.now_s, self._next.at_s)
            self._let_come_and_go()
            if scheduler.has_work:
                step = scheduler.schedule(self.now_s)
                self.now_s += self._cost.measure_s(step)
                scheduler.update(step, self._execute(step), self.now_s)
                self._observer.see(step, self.now_s)
                yield step
            for output in scheduler.take_outputs():
                self._observer.take(output, self.now_s)

    def _let_come_and_go(self) -> None:
        while self._next is not None and self._next.at_s <= self.now_s:
            arrival, self._next = self._next, next(self._arrivals, None)
            try:
                self.scheduler.add(arrival.request, self.now_s)
            except RequestError:
                self.num_refused += 1
                continue
            self._observer.come(arrival.request, self.now_s)
            if arrival.leaves_s is not None:
                heapq.heappush(self._leaving, (arrival.leaves_s, arrival.request.request_id))
        while self._leaving and self._leaving[0][0] <= self.now_s:
            self.scheduler.finish(heapq.heappop(self._leaving)[1], "abort")

    def _execute(self, step: SchedulerOutput) -> ModelRunnerOutput:
        for request_id in step.finished:
            del self._known[request_id]
        for new in step.added:
            tokens = new.output_token_ids or new.prompt_token_ids
            self._known[new.request_id] = (len(new.prompt_token_ids) + len(new.output_token_ids), tokens[-1])
        sampled = []
        for number in range(step.repeat):
            for part in step.scheduled:
                num_tokens, last = self._known[part.request_id]
                if number or part.num_computed_tokens + part.num_scheduled_tokens == num_tokens:
                    token_id = self._choose(part.request_id, last, num_tokens)
                    self._known[part.request_id] = (num_tokens + 1, token_id)
                    sampled.append(SampledToken(part.request_id, token_id))
        return ModelRunnerOutput(step=step.step, sampled=tuple(sampled))
