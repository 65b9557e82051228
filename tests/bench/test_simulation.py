"""A clock that steps move on, a formula for what they take, and requests that come, leave and are refused."""

import pytest

from pelton.bench.simulation import Arrival, Cost, Observer, Simulation
from pelton.core.outputs import RequestOutput
from pelton.core.sampling_params import SamplingParams
from pelton.core.step import NewRequest, RequestId, ScheduledRequest, SchedulerOutput
from pelton.engine.limits import SchedulerLimits
from pelton.engine.scheduler import Scheduler
from pelton.errors import ConfigError
from pelton.kvcache.block_pool import BlockPool

pytestmark = pytest.mark.unit

COST = Cost(step_s=0.5, token_s=0.25, prompt_token_s=0.125)


class Keep(Observer):
    """Keeps outputs with their times."""

    def __init__(self) -> None:
        self.outputs: list[tuple[float, RequestOutput]] = []

    def take(self, output: RequestOutput, now_s: float) -> None:
        self.outputs.append((now_s, output))

    def times(self, name: str) -> list[float]:
        return [now_s for now_s, output in self.outputs if output.request_id == name and output.token_ids]


def make_arrival(name: str, at_s: float, prompt: int, output: int, leaves_s: float | None = None) -> Arrival:
    request = NewRequest(
        request_id=RequestId(name),
        prompt_token_ids=tuple(range(100, 100 + prompt)),
        sampling=SamplingParams(max_tokens=output, temperature=0.0),
        arrival_s=at_s,
    )
    return Arrival(at_s, request, leaves_s)


def run(*arrivals: Arrival, max_repeat: int = 1, observer: Observer | None = None) -> tuple[Simulation, Keep]:
    limits = SchedulerLimits(
        max_num_batched_tokens=32,
        max_prefill_chunk=16,
        max_num_requests=4,
        max_model_len=64,
        vocab_size=1000,
        max_repeat=max_repeat,
    )
    keep = Keep()
    simulation = Simulation(Scheduler(limits, BlockPool(32, 4)), iter(arrivals), COST, observer or keep)
    assert sum(1 for _ in simulation.steps()) < 100
    return simulation, keep


def test_time_passes_by_what_is_computed() -> None:
    simulation, keep = run(make_arrival("a", 10.0, 8, 3))
    first = 10.0 + 0.5 + 8 * 0.125
    assert keep.times("a") == [first, first + 0.75, first + 1.5]
    assert simulation.now_s == first + 1.5
    assert [out.token_ids for _, out in keep.outputs] == [(108,), (109,), (110,)]


def test_a_repeated_step_takes_as_long_as_its_repeats() -> None:
    part = ScheduledRequest(request_id=RequestId("a"), num_computed_tokens=3, num_scheduled_tokens=1, block_ids=())
    assert COST.measure_s(SchedulerOutput(step=0, scheduled=(part,), repeat=3)) == 3 * 0.75
    _, keep = run(make_arrival("a", 0.0, 8, 6), max_repeat=8)
    assert [out.token_ids[0] for _, out in keep.outputs] == list(range(108, 114))


def test_who_comes_during_a_step_is_let_in_after_it_and_who_has_left_is_not_computed() -> None:
    simulation, keep = run(
        make_arrival("a", 0.0, 8, 40), make_arrival("b", 1.0, 8, 40, leaves_s=4.0), make_arrival("late", 100.0, 8, 2)
    )
    assert keep.times("b")[0] > 1.5
    assert max(keep.times("b")) <= 4.0 + 1.0
    reasons = {out.request_id: out.finish_reason for _, out in keep.outputs}
    assert reasons == {"a": "length", "b": "abort", "late": "length"}
    assert keep.times("late")[0] == 100.0 + 0.75  # it finds all but a token of its prompt
    assert simulation.scheduler.pool.num_free == 32


def test_what_can_never_run_is_counted() -> None:
    simulation, keep = run(make_arrival("a", 0.0, 64, 1), make_arrival("b", 0.0, 4, 1), observer=None)
    assert simulation.num_refused == 1
    assert [out.request_id for _, out in keep.outputs] == ["b"]
    run(make_arrival("a", 0.0, 8, 3), observer=Observer())


def test_a_cost_is_read_from_text() -> None:
    assert Cost.parse("step_ms=500,token_us=250000,prompt_us=125000") == COST
    assert Cost.parse("token_us=1").step_s == 0.0
    for text in ("", "step_ms=x", "step=1", "step_ms=-1,token_us=2", "step_ms", "step_ms=nan", "step_ms=inf"):
        with pytest.raises(ConfigError, match="is no cost, expected for example step_ms=8"):
            Cost.parse(text)
