"""Times of a workload on an engine without a model."""

from __future__ import annotations

import pytest
from tests.engine.fakes import VOCAB_SIZE, HashExecutor, make_engine

from pelton.bench import offline
from pelton.bench.offline import Workload, count_runs, make_requests, make_run, measure_offline
from pelton.core.step import ModelRunnerOutput, SchedulerOutput
from pelton.errors import ConfigError, InternalError

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
    assert speed.decode_step_ms == pytest.approx(24)
    assert len(runs) == 4 == count_runs(Workload(batch=3, prompt_tokens=10, output_tokens=5), 2)
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
        make_run(engine, workload, 2, seed=1, vocab_size=2)
    assert executor.prompts[0] == executor.prompts[1]
    assert set(executor.prompts[0]) <= {0, 1}


def test_a_request_that_fails_ends_the_measurement(clock: Clock) -> None:
    engine = make_engine(executor=TimedExecutor(clock), max_model_len=8)
    with pytest.raises(InternalError, match="bench: a request failed: "):
        make_run(engine, Workload(batch=1, prompt_tokens=20, output_tokens=1), 1, seed=0, vocab_size=VOCAB_SIZE)


def test_at_a_depth_only_steps_in_which_all_decode_are_timed(clock: Clock) -> None:
    executor = TimedExecutor(clock)
    engine = make_engine(executor=executor)
    runs: list[float] = []
    workload = Workload(batch=3, prompt_tokens=5, output_tokens=4, depth=40)
    speed = measure_offline(engine, workload, repeat=2, vocab_size=VOCAB_SIZE, on_run=lambda: runs.append(clock.now_s))
    assert (speed.prefill_tokens_per_s, speed.depth, speed.prompt_tokens) == (None, 40, 40)
    assert speed.decode_tokens_per_s == pytest.approx(125)
    assert speed.decode_step_ms == pytest.approx(24)
    assert {len(prompt) for prompt in executor.prompts} == {40}
    assert len(runs) == 2 == count_runs(workload, 2)
    assert not engine.has_work


@pytest.mark.parametrize(
    ("batch", "depth", "message"),
    [
        (1, 250, "^bench: 250 tokens of context and 1[0-9] to decode are more than max_model_len=256"),
        (4, 60, "^bench: 4 requests of 7[0-9] tokens do not fit into a KV cache of 256"),
    ],
)
def test_a_depth_that_does_not_fit_is_refused(clock: Clock, batch: int, depth: int, message: str) -> None:
    engine = make_engine(executor=TimedExecutor(clock))
    workload = Workload(batch=batch, prompt_tokens=1, output_tokens=4, depth=depth)
    with pytest.raises(ConfigError, match=message):
        measure_offline(engine, workload, repeat=1, vocab_size=VOCAB_SIZE)


def test_prompts_share_their_first_tokens_and_no_others() -> None:
    workload = Workload(batch=3, prompt_tokens=9, output_tokens=1, shared_prefix=6)
    prompts = [request.prompt_token_ids for request in make_requests(workload, 2, seed=3, vocab_size=VOCAB_SIZE)]
    assert len({prompt[:6] for prompt in prompts}) == 1
    assert len({prompt[6:] for prompt in prompts}) == 3
    assert {len(prompt) for prompt in prompts} == {9}


def test_without_a_step_in_which_all_decode_there_is_no_time_of_one(clock: Clock) -> None:
    engine = make_engine(executor=TimedExecutor(clock), max_num_batched_tokens=8)
    workload = Workload(batch=8, prompt_tokens=8, output_tokens=1)
    assert measure_offline(engine, workload, repeat=1, vocab_size=VOCAB_SIZE).decode_step_ms is None


def test_decode_is_told_of_once_all_have_their_first_token(clock: Clock) -> None:
    engine = make_engine(executor=TimedExecutor(clock), max_num_batched_tokens=16)
    told: list[float] = []
    workload = Workload(batch=3, prompt_tokens=10, output_tokens=3)
    run = make_run(engine, workload, 4, seed=0, vocab_size=VOCAB_SIZE, on_decode=lambda: told.append(clock.now_s))
    assert len(told) == 1
    assert run.total_s == pytest.approx(clock.now_s)
    assert sum(run.step_s) <= run.total_s - told[0] + 1e-9
