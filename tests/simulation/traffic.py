"""Days of traffic and a machine that takes time without computing anything: the scheduler in the field, at speed.

A step costs a fixed part and a part per token; requests arrive while it runs. Everything follows from a seed, so a
day's schedule is a constant of the scheduler.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import msgspec

from pelton.bench.simulation import Arrival, Cost, Observer, Simulation
from pelton.core.outputs import RequestOutput
from pelton.core.sampling_params import SamplingParams
from pelton.core.step import NewRequest, RequestId, SchedulerOutput
from pelton.engine.limits import SchedulerLimits
from pelton.engine.scheduler import Scheduler
from pelton.kvcache.block_pool import BlockPool

STEP_S = 0.004
TOKEN_S = 0.001
EOS = 7
VOCAB_SIZE = 1000


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


def make_limits(**changes: float) -> SchedulerLimits:
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


def make_tenants() -> Day:
    """One tenant floods, two do not; some are in a hurry, and streams want to go on beside long prompts."""
    draw, at_s, arrivals = random.Random(5), 0.0, []
    for number in range(240):
        at_s += draw.expovariate(6.0)
        tenant = draw.choices(("flood", "one", "other"), (8, 1, 1))[0]
        prompt = draw.randint(400, 900) if draw.random() < 0.1 else draw.randint(10, 200)
        arrival = make_arrival(number, at_s, prompt, draw.randint(10, 80), priority=draw.choice((0, 0, 0, 1)))
        deadline_s = at_s + draw.uniform(5.0, 60.0) if draw.random() < 0.2 else 0.0
        tokens = tuple((number + 3 * position) % VOCAB_SIZE for position in range(prompt))
        request = msgspec.structs.replace(
            arrival.request, tenant=tenant, deadline_s=deadline_s, prompt_token_ids=tokens
        )
        arrivals.append(Arrival(at_s, request))
    return Day(arrivals, make_limits(target_itl_s=0.0, max_num_requests=12, max_repeat=4), 400)


DAYS: dict[str, Callable[[], Day]] = {
    "chat": make_chat,
    "long_documents": make_long_documents,
    "agents": make_agents,
    "burst": make_burst,
    "tenants": make_tenants,
}


def choose(request_id: RequestId, last_token_id: int, num_tokens: int) -> int:
    """A token like any other, and sometimes EOS."""
    return (int(request_id) * 31 + num_tokens * 17) % 997


class Replay(Observer):
    """A day under way."""

    def __init__(self, day: Day) -> None:
        self.scheduler = Scheduler(day.limits, BlockPool(day.num_blocks, day.block_size))
        self.outputs: list[RequestOutput] = []
        cost = Cost(step_s=STEP_S, token_s=TOKEN_S, prompt_token_s=TOKEN_S)
        arrivals = sorted(day.arrivals, key=lambda arrival: arrival.at_s)
        self._simulation = Simulation(self.scheduler, arrivals, cost, self, choose)

    def take(self, output: RequestOutput, now_s: float) -> None:
        """Keep it."""
        self.outputs.append(output)

    def steps(self, max_steps: int = 20_000) -> Iterator[SchedulerOutput]:
        """Run the day to its end, yielding every step."""
        for num_steps, step in enumerate(self._simulation.steps()):
            assert num_steps < max_steps, "no progress"
            yield step
