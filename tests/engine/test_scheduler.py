"""Decisions one by one, then every order of calls against `check` and a model that notices a wrong slot."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.engine.fakes import (
    VOCAB_SIZE,
    HashExecutor,
    compute_continuation,
    make_limits,
    make_request,
)

from pelton.core.outputs import RequestOutput
from pelton.core.step import ModelRunnerOutput, RequestId, SampledToken, SchedulerOutput
from pelton.engine.request import State
from pelton.engine.scheduler import MAX_PREEMPTIONS, Scheduler
from pelton.errors import InternalError, RequestError, TooLong
from pelton.kvcache.block_pool import BlockPool

pytestmark = pytest.mark.unit


class Engine:
    """A scheduler and a hash executor, stepped by hand."""

    def __init__(self, num_blocks: int = 64, block_size: int = 4, **limits: int) -> None:
        self.limits = make_limits(**limits)
        self.scheduler = Scheduler(self.limits, BlockPool(num_blocks, block_size))
        self.executor = HashExecutor(num_blocks, block_size, self.limits.max_num_requests)
        self.outputs: list[RequestOutput] = []

    def step(self) -> SchedulerOutput:
        step = self.scheduler.schedule()
        self.scheduler.update(step, self.executor.execute(step))
        self.scheduler.check()
        self.outputs += self.scheduler.take_outputs()
        return step

    def run(self, max_steps: int = 5000) -> list[dict[str, int]]:
        """Step until idle; the chunks of each step by request."""
        steps = []
        while self.scheduler.has_work:
            steps.append(get_chunks(self.step()))
            assert len(steps) < max_steps, "no progress"
        return steps

    def tokens(self, request_id: str) -> list[int]:
        return [token_id for out in self.outputs if out.request_id == request_id for token_id in out.token_ids]

    def reasons(self, request_id: str) -> list[str]:
        return [out.finish_reason for out in self.outputs if out.request_id == request_id and out.finish_reason]


def get_chunks(step: SchedulerOutput) -> dict[str, int]:
    return {part.request_id: part.num_scheduled_tokens for part in step.scheduled}


def test_chunks_mix_with_single_tokens_in_one_budget() -> None:
    engine = Engine(max_num_batched_tokens=16, max_prefill_chunk=16)
    engine.scheduler.add(make_request("0", 20, 2))
    engine.scheduler.add(make_request("1", 3, 1))
    assert engine.run() == [{"0": 16}, {"0": 4, "1": 3}, {"0": 1}]


def test_long_chunk_leaves_a_token_for_each_stream_behind_it() -> None:
    engine = Engine(max_num_batched_tokens=8, max_prefill_chunk=8)
    engine.scheduler.add(make_request("short", 2, 9))
    engine.step()
    engine.scheduler.add(make_request("long", 30, 1, priority=-1))
    assert get_chunks(engine.step()) == {"short": 1, "long": 7}
    assert get_chunks(engine.step()) == {"long": 7, "short": 1}


def test_waiting_requests_start_by_priority_then_arrival() -> None:
    engine = Engine(max_num_requests=1)
    for name, priority in (("a", 1), ("b", 0), ("c", 0), ("d", -5)):
        engine.scheduler.add(make_request(name, 3, 1, priority=priority))
    assert [next(iter(chunks)) for chunks in engine.run()] == ["d", "b", "c", "a"]


def test_memory_for_the_whole_prompt_is_promised_at_admission() -> None:
    engine = Engine(num_blocks=8, block_size=4, max_num_batched_tokens=8, max_prefill_chunk=4)
    engine.scheduler.add(make_request("a", 16, 2))
    engine.scheduler.add(make_request("b", 16, 2))
    assert get_chunks(engine.step()) == {"a": 4}  # 4 of 8 blocks are a's, and one more stays free for it
    assert engine.scheduler.pool.num_free == 4
    engine.run()
    assert engine.scheduler.num_preemptions == 0


def test_request_with_least_computed_tokens_is_preempted_and_loses_nothing() -> None:
    engine = Engine(num_blocks=10, block_size=2, max_prefill_chunk=8)
    for name, prompt in (("a", 8), ("b", 2), ("c", 4)):
        engine.scheduler.add(make_request(name, prompt, 10))
    while not engine.scheduler.num_preemptions:
        engine.step()
    assert [request.request_id for request in engine.scheduler._waiting] == ["b"]
    engine.run()
    for name, prompt in (("a", 8), ("b", 2), ("c", 4)):
        expected = compute_continuation(make_request(name, prompt).prompt_token_ids, 10)
        assert engine.tokens(name) == expected
        assert engine.reasons(name) == ["length"]


def test_first_running_request_is_never_preempted() -> None:
    engine = Engine(num_blocks=6, block_size=2, max_prefill_chunk=8)
    engine.scheduler.add(make_request("a", 1, 8))
    engine.scheduler.add(make_request("b", 3, 8))
    engine.run()
    assert engine.scheduler.num_preemptions > 0
    order = [out.request_id for out in engine.outputs if out.finish_reason]
    assert order == ["a", "b"]


def test_request_preempted_three_times_gets_all_its_memory_and_then_keeps_it() -> None:
    engine = Engine(num_blocks=8, block_size=2, max_prefill_chunk=8)
    engine.scheduler.add(make_request("victim", 2, 8, priority=1))
    engine.step()
    victim = engine.scheduler._live[RequestId("victim")]
    victim.num_preemptions = MAX_PREEMPTIONS - 1
    engine.scheduler.add(make_request("first", 6, 10))
    while victim.num_preemptions < MAX_PREEMPTIONS:
        engine.step()
    while victim.state is State.WAITING:
        engine.step()
    assert len(victim.block_ids) == 5  # 2 + 8 tokens
    engine.scheduler.add(make_request("later", 2, 8))
    engine.run()
    assert victim.num_preemptions == MAX_PREEMPTIONS
    assert engine.tokens("victim") == compute_continuation(victim.new.prompt_token_ids, 8)


def test_first_request_waits_for_those_that_may_not_be_preempted_any_more() -> None:
    engine = Engine(num_blocks=8, block_size=2, max_prefill_chunk=8)
    engine.scheduler.add(make_request("first", 2, 12))
    engine.scheduler.add(make_request("pinned", 4, 6))
    engine.scheduler._live[RequestId("pinned")].num_preemptions = MAX_PREEMPTIONS
    chunks = engine.run()
    assert any("first" not in step for step in chunks)
    assert engine.scheduler.num_preemptions == 0
    assert engine.reasons("first") == engine.reasons("pinned") == ["length"]


@pytest.mark.parametrize(("prompt", "fits"), [(39, True), (40, False)])
def test_what_the_pool_cannot_hold_alone_is_refused(prompt: int, fits: bool) -> None:
    engine = Engine(num_blocks=10, block_size=4)
    if not fits:
        with pytest.raises(TooLong, match="whole KV pool holds 40"):
            engine.scheduler.add(make_request("a", prompt))
        assert not engine.scheduler.has_work
        return
    engine.scheduler.add(make_request("a", prompt, None))
    engine.run()
    assert engine.reasons("a") == ["length"]
    assert len(engine.tokens("a")) == 1


def test_request_ends_at_the_context_length() -> None:
    engine = Engine(max_model_len=12)
    engine.scheduler.add(make_request("a", 5, None))
    engine.run()
    assert len(engine.tokens("a")) == 7
    assert engine.reasons("a") == ["length"]
    with pytest.raises(TooLong, match="max_model_len=12"):
        engine.scheduler.add(make_request("b", 12))


def test_request_id_in_use_is_refused() -> None:
    engine = Engine()
    engine.scheduler.add(make_request("a"))
    with pytest.raises(RequestError, match="'a' is in use"):
        engine.scheduler.add(make_request("a"))


@pytest.mark.parametrize("wrong", [-1, VOCAB_SIZE])
def test_token_ids_that_do_not_exist_are_refused(wrong: int) -> None:
    engine = Engine()
    with pytest.raises(RequestError, match=r"^prompt: token id"):
        engine.scheduler.add(make_request("a", [1, wrong]))
    with pytest.raises(RequestError, match=r"^stop_token_ids: token id"):
        engine.scheduler.add(make_request("a", stop_token_ids=(wrong,)))
    with pytest.raises(RequestError, match=r"^logit_bias: token id"):
        engine.scheduler.add(make_request("a", logit_bias={wrong: 1.0}))
    assert not engine.scheduler.has_work


def first_tokens(prompt: Sequence[int], num_tokens: int = 6) -> list[int]:
    return compute_continuation(prompt, num_tokens)


@pytest.mark.parametrize("kind", ["eos", "stop_token_ids"])
def test_stop_tokens_end_a_request_and_are_its_last_token(kind: str) -> None:
    engine = Engine()
    expected = first_tokens([1, 2, 3])
    given_ids = {"eos": (expected[2],)} if kind == "eos" else {"stop_token_ids": (expected[2],)}
    engine.scheduler.add(make_request("a", [1, 2, 3], 6, **given_ids))
    engine.run()
    assert engine.tokens("a") == expected[:3]
    assert engine.outputs[-1].finish_reason == "stop"
    assert engine.outputs[-1].stop_token_id == expected[2]


def test_ignore_eos_and_min_tokens() -> None:
    engine = Engine()
    expected = first_tokens([1, 2, 3])
    engine.scheduler.add(make_request("on", [1, 2, 3], 6, eos=(expected[2],), ignore_eos=True))
    engine.scheduler.add(make_request("min", [1, 2, 3], 6, eos=(expected[1],), min_tokens=2))
    engine.scheduler.add(make_request("after", [1, 2, 3], 6, eos=(expected[2],), min_tokens=2))
    engine.run()
    assert engine.tokens("on") == engine.tokens("min") == expected
    assert engine.tokens("after") == expected[:3]


def test_resumed_request_counts_its_outputs() -> None:
    engine = Engine()
    expected = first_tokens([1, 2, 3])
    engine.scheduler.add(make_request("a", [1, 2, 3], 6, outputs=tuple(expected[:4])))
    engine.run()
    assert engine.tokens("a") == expected[4:]
    engine.scheduler.add(make_request("b", [1, 2, 3], 6, outputs=tuple(expected)))
    assert [out.finish_reason for out in engine.scheduler.take_outputs()] == ["length"]
    assert not engine.scheduler.has_work


@pytest.mark.parametrize("wrong", [-1, VOCAB_SIZE])
def test_token_that_is_none_ends_that_request_only(wrong: int) -> None:
    engine = Engine()
    engine.executor.choose = lambda request_id, token_ids: (  # type: ignore[method-assign]
        wrong if request_id == "bad" and len(token_ids) == 7 else 3
    )
    engine.scheduler.add(make_request("bad", 5, 9))
    engine.scheduler.add(make_request("good", 5, 4))
    engine.run()
    assert engine.reasons("bad") == ["error"]
    assert engine.tokens("bad") == [3, 3]
    assert engine.reasons("good") == ["length"]


def test_request_for_which_nothing_was_chosen_ends_with_an_error() -> None:
    engine = Engine()
    engine.scheduler.add(make_request("a"))
    step = engine.scheduler.schedule()
    engine.scheduler.update(step, ModelRunnerOutput(step=step.step))
    assert [out.finish_reason for out in engine.scheduler.take_outputs()] == ["error"]


def test_request_aborted_during_a_step_is_skipped_by_update() -> None:
    engine = Engine()
    engine.scheduler.add(make_request("a"))
    step = engine.scheduler.schedule()
    engine.scheduler.finish(RequestId("a"), "abort")
    engine.scheduler.finish(RequestId("a"), "abort")
    engine.scheduler.update(step, ModelRunnerOutput(step=0, sampled=(SampledToken(RequestId("a"), 1),)))
    assert [out.finish_reason for out in engine.scheduler.take_outputs()] == ["abort"]
    assert engine.scheduler.pool.num_free == engine.scheduler.pool.num_blocks
    assert engine.scheduler.schedule().finished == ("a",)


def test_work_that_cannot_go_on_is_an_error_not_a_hang() -> None:
    engine = Engine(num_blocks=4)
    engine.scheduler.add(make_request("a"))
    engine.scheduler.pool.acquire(4)
    with pytest.raises(InternalError, match="none can be computed"):
        engine.scheduler.schedule()


REQUESTS = st.lists(st.tuples(st.integers(1, 40), st.integers(1, 30), st.integers(0, 1)), min_size=1, max_size=12)


@settings(max_examples=60, deadline=None)
@given(
    shapes=REQUESTS,
    chunk=st.sampled_from([1, 3, 16, 64]),
    budget=st.integers(4, 70),
    num_blocks=st.integers(18, 60),
    block_size=st.sampled_from([4, 8]),
)
def test_chunks_batches_and_preemption_do_not_change_outputs(
    shapes: list[tuple[int, int, int]], chunk: int, budget: int, num_blocks: int, block_size: int
) -> None:
    engine = Engine(num_blocks, block_size, max_prefill_chunk=chunk, max_num_batched_tokens=budget, max_num_requests=4)
    for number, (prompt, max_tokens, priority) in enumerate(shapes):
        engine.scheduler.add(make_request(str(number), prompt, max_tokens, priority=priority))
    engine.run()
    for number, (prompt, max_tokens, _) in enumerate(shapes):
        assert engine.tokens(str(number)) == compute_continuation(
            make_request(str(number), prompt).prompt_token_ids, max_tokens
        )
        assert engine.reasons(str(number)) == ["length"]
    assert engine.scheduler.pool.num_free == num_blocks


class SchedulerMachine(RuleBasedStateMachine):
    """Add, abort and step in any order. In the end every request has had one last output and nothing is held."""

    def __init__(self) -> None:
        super().__init__()
        self.engine = Engine(num_blocks=16, block_size=2, max_num_requests=4, max_num_batched_tokens=12)
        self.shapes: dict[str, tuple[int, int]] = {}

    @rule(prompt=st.integers(1, 20), max_tokens=st.integers(1, 12), priority=st.integers(0, 1))
    def add(self, prompt: int, max_tokens: int, priority: int) -> None:
        name = str(len(self.shapes))
        self.shapes[name] = (prompt, max_tokens)
        self.engine.scheduler.add(make_request(name, prompt, max_tokens, priority=priority))

    @precondition(lambda self: self.shapes)
    @rule(data=st.data())
    def abort(self, data: st.DataObject) -> None:
        self.engine.scheduler.finish(RequestId(data.draw(st.sampled_from(sorted(self.shapes)))), "abort")

    @rule(num_steps=st.integers(1, 6))
    def step(self, num_steps: int) -> None:
        for _ in range(num_steps):
            if self.engine.scheduler.has_work:
                self.engine.step()

    @invariant()
    def sound(self) -> None:
        self.engine.scheduler.check()

    def teardown(self) -> None:
        self.engine.run()
        self.engine.outputs += self.engine.scheduler.take_outputs()
        assert self.engine.scheduler.pool.num_free == 16
        for name, (prompt, max_tokens) in self.shapes.items():
            reasons = self.engine.reasons(name)
            assert reasons in (["abort"], ["length"])
            expected = compute_continuation(make_request(name, prompt).prompt_token_ids, max_tokens)
            tokens = self.engine.tokens(name)
            assert tokens == expected[: len(tokens)]
            assert reasons == ["abort"] or len(tokens) == max_tokens


SchedulerMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
TestSchedulerMachine = SchedulerMachine.TestCase
