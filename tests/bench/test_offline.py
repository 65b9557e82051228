"""Times of a workload on an engine without a model."""

from __future__ import annotations

import pytest
from tests.engine.fakes import VOCAB_SIZE, HashExecutor, make_engine

from pelton.bench import offline
from pelton.bench.offline import Workload, measure_offline, time_run
from pelton.core.step import ModelRunnerOutput, SchedulerOutput
from pelton.errors import InternalError

pytestmark = pytest.mark.unit


class Clock:
    """Counts seconds as the executor says."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def perf_counter(self) -> float:
        return self.now_s


class TimedExecutor(HashExecutor):
    """Takes 1 ms per prompt token and 8 ms per token decoded. Keeps what it was asked to run."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(64, 4)
        self.clock = clock
        self.prompts: list[tuple[int, ...]] = []

    def execute(self, step: SchedulerOutput) -> ModelRunnerOutput:
        self.prompts += [new.prompt_token_ids for new in step.added]
        for part in step.scheduled:
            is_decode = part.num_computed_tokens >= 10
            self.clock.now_s += 0.008 if is_decode else 0.001 * part.num_scheduled_tokens
        return super().execute(step)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(offline, "time", made)
    return made


def test_prefill_and_decode_are_told_apart(clock: Clock) -> None:
    engine = make_engine(executor=TimedExecutor(clock))
    runs: list[float] = []
    speed = measure_offline(
        engine,
        Workload(batch=3, prompt_tokens=10, output_tokens=5),
        repeat=2,
        vocab_size=VOCAB_SIZE,
        on_run=lambda: runs.append(clock.now_s),
    )
    assert (speed.batch, speed.prompt_tokens, speed.output_tokens) == (3, 10, 5)
    assert speed.prefill_tokens_per_s == pytest.approx(1000)
    assert speed.decode_tokens_per_s == pytest.approx(125)
    assert len(runs) == 4
    assert not engine.has_work


def test_every_run_has_fresh_prompts_of_known_tokens(clock: Clock) -> None:
    executor = TimedExecutor(clock)
    workload = Workload(batch=2, prompt_tokens=6, output_tokens=1)
    measure_offline(make_engine(executor=executor), workload, repeat=3, vocab_size=VOCAB_SIZE)
    assert len(set(executor.prompts)) == len(executor.prompts) == 12
    assert all(len(prompt) == 6 and max(prompt) < VOCAB_SIZE for prompt in executor.prompts)


def test_equal_seeds_give_equal_work(clock: Clock) -> None:
    executor = TimedExecutor(clock)
    engine = make_engine(executor=executor)
    workload = Workload(batch=1, prompt_tokens=6, output_tokens=1)
    for _ in range(2):
        time_run(engine, workload, 2, seed=1, vocab_size=2)
    assert executor.prompts[0] == executor.prompts[1]
    assert set(executor.prompts[0]) <= {0, 1}


def test_a_request_that_fails_ends_the_measurement(clock: Clock) -> None:
    engine = make_engine(executor=TimedExecutor(clock), max_model_len=8)
    with pytest.raises(InternalError, match="bench: a request failed: "):
        time_run(engine, Workload(batch=1, prompt_tokens=20, output_tokens=1), 1, seed=0, vocab_size=VOCAB_SIZE)
