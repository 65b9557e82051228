"""Days of traffic and a machine that takes time without computing anything: the scheduler in the field, at speed.

A step costs a fixed part and a part per token; requests arrive while it runs. Everything follows from a seed, so a
day's schedule is a constant of the scheduler.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pelton.core.outputs import RequestOutput
from pelton.core.sampling_params import SamplingParams
from pelton.core.step import ModelRunnerOutput, NewRequest, RequestId, SampledToken, SchedulerOutput
from pelton.engine.limits import SchedulerLimits
from pelton.engine.scheduler import Scheduler
from pelton.kvcache.block_pool import BlockPool

STEP_S = 0.004
TOKEN_S = 0.001
EOS = 7
VOCAB_SIZE = 1000


@dataclass(frozen=True)
class Arrival:
    """A request, when it comes, and when its client leaves, if it does."""

    at_s: float
    request: NewRequest
    leaves_s: float | None = None


@dataclass(frozen=True)
class Day:
    """Traffic and the engine that meets it."""

    arrivals: list[Arrival]
    limits: SchedulerLimits
    num_blocks: int
    block_size: int = 16


def make_arrival(
    number: int, at_s: float, prompt: int, max_tokens: int, *, priority: int = 0, leaves_s: float | None = None
) -> Arrival:
    """A request whose tokens do not matter."""
    request = NewRequest(
        request_id=RequestId(str(number)),
        prompt_token_ids=(1,) * prompt,
        sampling=SamplingParams(max_tokens=max_tokens),
        eos_token_ids=(EOS,),
        priority=priority,
        arrival_s=at_s,
    )
    return Arrival(at_s, request, leaves_s)


def make_limits(**changes: int) -> SchedulerLimits:
    """The limits of a small machine, with `changes`."""
    values = {
        "max_num_batched_tokens": 256,
        "max_prefill_chunk": 64,
        "max_num_requests": 32,
        "max_model_len": 8192,
        "vocab_size": VOCAB_SIZE,
    }
    return SchedulerLimits(**(values | changes))


def make_chat() -> Day:
    """People who type: short prompts, answers of some length, one in ten leaves."""
    draw, at_s, arrivals = random.Random(1), 0.0, []
    for number in range(120):
        at_s += draw.expovariate(4.0)
        leaves_s = at_s + draw.uniform(0.0, 3.0) if draw.random() < 0.1 else None
        arrivals.append(make_arrival(number, at_s, draw.randint(10, 300), draw.randint(10, 150), leaves_s=leaves_s))
    return Day(arrivals, make_limits(), 1024)


def make_long_documents() -> Day:
    """Long prompts and short answers, with a few short questions between."""
    draw, at_s, arrivals = random.Random(2), 0.0, []
    for number in range(40):
        at_s += draw.expovariate(0.5)
        prompt = draw.randint(1500, 7000) if draw.random() < 0.6 else draw.randint(5, 40)
        arrivals.append(make_arrival(number, at_s, prompt, draw.randint(5, 60)))
    return Day(arrivals, make_limits(max_prefill_chunk=128), 1400)


def make_agents() -> Day:
    """Sessions that come back with everything said so far, at three priorities."""
    draw, arrivals = random.Random(3), []
    for session in range(16):
        at_s, prompt = draw.uniform(0.0, 5.0), draw.randint(100, 400)
        for _ in range(6):
            arrivals.append(make_arrival(len(arrivals), at_s, prompt, draw.randint(5, 60), priority=session % 3 - 1))
            at_s += draw.uniform(0.5, 4.0)
            prompt += draw.randint(30, 200)
    return Day(sorted(arrivals, key=lambda arrival: arrival.at_s), make_limits(), 260)


def make_burst() -> Day:
    """Forty at once, again and again, on a pool that holds a dozen: preemption all day."""
    draw, arrivals = random.Random(4), []
    for number in range(160):
        at_s = 8.0 * (number // 40)
        leaves_s = at_s + draw.uniform(0.0, 10.0) if draw.random() < 0.2 else None
        arrivals.append(make_arrival(number, at_s, draw.randint(5, 60), draw.randint(20, 120), leaves_s=leaves_s))
    return Day(arrivals, make_limits(), 60)


DAYS: dict[str, Callable[[], Day]] = {
    "chat": make_chat,
    "long_documents": make_long_documents,
    "agents": make_agents,
    "burst": make_burst,
}


@dataclass
class Replay:
    """A day under way."""

    day: Day

    def __post_init__(self) -> None:
        self.scheduler = Scheduler(self.day.limits, BlockPool(self.day.num_blocks, self.day.block_size))
        self.outputs: list[RequestOutput] = []
        self._num_tokens: dict[RequestId, int] = {}

    def steps(self, max_steps: int = 20_000) -> Iterator[SchedulerOutput]:
        """Run the day to its end, yielding every step."""
        scheduler, now_s, num_steps = self.scheduler, 0.0, 0
        arrivals = deque(sorted(self.day.arrivals, key=lambda arrival: arrival.at_s))
        leaving = deque(
            sorted(
                (arrival.leaves_s, arrival.request.request_id) for arrival in arrivals if arrival.leaves_s is not None
            )
        )
        while arrivals or scheduler.has_work:
            if not scheduler.has_work:
                now_s = max(now_s, arrivals[0].at_s)
            while arrivals and arrivals[0].at_s <= now_s:
                scheduler.add(arrivals.popleft().request, now_s)
            while leaving and leaving[0][0] <= now_s:
                scheduler.finish(leaving.popleft()[1], "abort")
            if scheduler.has_work:
                step = scheduler.schedule(now_s)
                now_s += STEP_S + TOKEN_S * sum(part.num_scheduled_tokens for part in step.scheduled)
                scheduler.update(step, self._execute(step), now_s)
                num_steps += 1
                assert num_steps < max_steps, "no progress"
                yield step
            self.outputs += scheduler.take_outputs()

    def _execute(self, step: SchedulerOutput) -> ModelRunnerOutput:
        for new in step.added:
            self._num_tokens[new.request_id] = len(new.prompt_token_ids) + len(new.output_token_ids)
        sampled = []
        for part in step.scheduled:
            num_tokens = self._num_tokens[part.request_id]
            if part.num_computed_tokens + part.num_scheduled_tokens == num_tokens:
                self._num_tokens[part.request_id] = num_tokens + 1
                token_id = (int(part.request_id) * 31 + num_tokens * 17) % 997
                sampled.append(SampledToken(part.request_id, token_id))
        return ModelRunnerOutput(step=step.step, sampled=tuple(sampled))
