"""The loop never keeps a request waiting in silence: refused, aborted, failed, each gets its last output."""

import pytest
from tests.engine.fakes import HashExecutor, compute_continuation, make_engine, make_limits, make_request

from pelton.core.outputs import RequestOutput, Timings
from pelton.core.step import ModelRunnerOutput, RequestId, SchedulerOutput
from pelton.engine.executor import Executor
from pelton.engine.loop import EngineLoop
from pelton.engine.process import step_or_break
from pelton.engine.scheduler import Scheduler
from pelton.kvcache.block_pool import BlockPool

pytestmark = pytest.mark.unit


class Ticks:
    """A clock that goes on by one second whenever it is read."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        self.now_s += 1.0
        return self.now_s


class FailingExecutor(HashExecutor):
    """Fails in its third step."""

    def execute(self, step: SchedulerOutput) -> ModelRunnerOutput:
        """Fail, or not."""
        if step.step == 2:
            raise MemoryError("no room")
        return super().execute(step)


def run(engine: EngineLoop, max_steps: int = 1000) -> list[RequestOutput]:
    outputs = []
    for _ in range(max_steps):
        if not engine.has_work:
            return outputs
        outputs += step_or_break(engine)
    raise AssertionError("no progress")


def get_reasons(outputs: list[RequestOutput]) -> list[tuple[str, str]]:
    return [(output.request_id, output.finish_reason) for output in outputs if output.finish_reason is not None]


def test_run_gives_every_output_and_then_ends() -> None:
    engine = make_engine()
    requests = [make_request(name, 7, 5) for name in "abc"]
    outputs = list(engine.run(requests))
    for request in requests:
        got = [token for out in outputs if out.request_id == request.request_id for token in out.token_ids]
        assert got == compute_continuation(request.prompt_token_ids, 5)
    assert not engine.has_work


def test_run_that_is_left_early_aborts_what_is_left() -> None:
    engine = make_engine()
    outputs = engine.run([make_request(name, 7, 50) for name in "abc"])
    next(outputs)
    outputs.close()  # type: ignore[attr-defined]
    assert not engine.has_work
    assert engine.stats().num_free_blocks == engine.stats().num_blocks


def test_request_that_cannot_run_is_answered() -> None:
    engine = make_engine()
    engine.add(make_request("long", 500))
    engine.add(make_request("good", 5, 1))
    engine.add(make_request("good"))
    outputs = run(engine)
    assert get_reasons(outputs) == [("long", "error"), ("good", "error"), ("good", "length")]
    assert "max_model_len=256" in (outputs[0].error or "")


def test_executor_that_raises_ends_all_requests_and_breaks_the_engine() -> None:
    engine = make_engine(executor=FailingExecutor(64, 4), max_num_requests=1)
    engine.add(make_request("running", 5, 50))
    engine.add(make_request("waiting", 5, 50))
    outputs = run(engine)
    assert get_reasons(outputs) == [("running", "error"), ("waiting", "error")]
    assert engine.broken == "MemoryError in step 2: no room"
    assert engine.stats().num_free_blocks == 64
    engine.add(make_request("later"))
    (output,) = run(engine)
    assert output.finish_reason == "error"
    assert "no room" in (output.error or "")


def test_run_raises_what_the_executor_raises() -> None:
    engine = make_engine(executor=FailingExecutor(64, 4))
    with pytest.raises(MemoryError, match="no room"):
        list(engine.run([make_request("a", 5, 50)]))
    assert not engine.has_work
    assert [out.finish_reason for out in engine.run([make_request("b")])] == ["error"]


def test_abort_in_every_state() -> None:
    engine = make_engine(max_num_requests=1)
    engine.add(make_request("running", 5, 50))
    engine.add(make_request("waiting", 5, 50))
    engine.step()
    for name in ("running", "waiting", "unknown", "running"):
        engine.abort(RequestId(name))
    assert get_reasons(run(engine)) == [("running", "abort"), ("waiting", "abort")]
    engine.add(make_request("a"))
    engine.add(make_request("b"))
    engine.abort_all()
    assert get_reasons(run(engine)) == [("a", "abort"), ("b", "abort")]


def test_drain_lets_live_requests_end_and_refuses_others() -> None:
    engine = make_engine()
    engine.add(make_request("live", 5, 3))
    engine.drain()
    engine.add(make_request("late"))
    assert get_reasons(run(engine)) == [("late", "error"), ("live", "length")]


def test_timings_and_stats_are_those_of_the_clock() -> None:
    executor = HashExecutor(64, 4)
    engine = EngineLoop(Scheduler(make_limits(), BlockPool(64, 4)), executor, Ticks())
    engine.add(make_request("a", 20, 2))  # at 1 s; steps begin at 2, 5 and 8 s and are done a second later
    outputs = run(engine)
    assert [out.timings for out in outputs] == [
        Timings(arrival_s=1.0, first_scheduled_s=2.0, first_token_s=6.0, last_token_s=6.0),
        Timings(arrival_s=1.0, first_scheduled_s=2.0, first_token_s=6.0, last_token_s=9.0),
    ]
    stats = engine.stats()
    assert (stats.num_steps, stats.num_prompt_tokens, stats.num_generation_tokens) == (3, 20, 2)
    assert stats.last_step_s == 2.0
    assert not stats.is_busy
    assert engine.step_started_s is None


def test_arrival_at_the_server_counts_if_it_is_known() -> None:
    engine = EngineLoop(Scheduler(make_limits(), BlockPool(64, 4)), HashExecutor(64, 4), Ticks())
    engine.add(make_request("a", 5, 1, arrival_s=0.25))
    assert run(engine)[-1].timings.arrival_s == 0.25


def test_watchdog_sees_the_step_under_way() -> None:
    seen: list[float | None] = []

    class Looking(HashExecutor):
        def execute(self, step: SchedulerOutput) -> ModelRunnerOutput:
            seen.append(engine.step_started_s)
            return super().execute(step)

    executor: Executor = Looking(64, 4)
    engine = EngineLoop(Scheduler(make_limits(), BlockPool(64, 4)), executor, Ticks())
    engine.add(make_request("a", 5, 1))
    run(engine)
    assert seen == [2.0]


def test_lost_block_is_noticed_when_idle() -> None:
    engine = make_engine()
    engine.add(make_request("a", 5, 1))
    engine._scheduler.pool._free[0].popitem()
    outputs = run(engine)
    assert get_reasons(outputs) == [("a", "length")]
    assert engine.broken is not None
    assert "is lost" in engine.broken


def test_close_closes_the_executor() -> None:
    executor = HashExecutor(64, 4)
    make_engine(executor=executor).close()
    assert executor.is_closed


def test_every_step_is_counted_by_its_tokens() -> None:
    engine = make_engine()
    outputs = list(engine.run([make_request(name, 7, 5) for name in "abc"]))
    stats = engine.stats()
    assert sum(stats.step_tokens) == stats.num_steps == engine.num_steps
    assert stats.num_step_tokens == stats.num_prompt_tokens + stats.num_generation_tokens - 3  # last ones stay alone
    assert stats.num_generation_tokens == sum(len(output.token_ids) for output in outputs) == 15


def test_outputs_say_how_often_their_request_was_set_back() -> None:
    engine = make_engine(num_blocks=8, block_size=4)
    outputs = list(engine.run([make_request(name, 7, 16) for name in "abc"]))
    counts = {output.request_id: output.timings.num_preemptions for output in outputs if output.finish_reason}
    assert sum(counts.values()) == engine.stats().num_preemptions > 0
