"""The scheduler with the prefix tree: what is shared, what is waited for, and that nobody can tell from the answers."""

import random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.engine.fakes import HashExecutor, compute_continuation, make_limits, make_request

from pelton.core.outputs import CacheMiss, RequestOutput
from pelton.core.step import ModelRunnerOutput, NewRequest, RequestId, SampledToken, SchedulerOutput
from pelton.engine.scheduler import Scheduler
from pelton.kvcache.block_pool import BlockPool

pytestmark = pytest.mark.unit
BLOCK = 4


class Engine:
    """A scheduler and an executor that reads every token back through the block table."""

    def __init__(self, num_blocks: int = 64, **limits: int) -> None:
        self.scheduler = Scheduler(make_limits(**limits), BlockPool(num_blocks, BLOCK))
        self.executor = HashExecutor(num_blocks, BLOCK)
        self.outputs: list[RequestOutput] = []

    def add(self, name: str, prompt: list[int], max_tokens: int = 4, salt: str = "", priority: int = 0) -> NewRequest:
        new = make_request(name, prompt, max_tokens, salt=salt, priority=priority)
        self.scheduler.add(new)
        return new

    def step(self) -> SchedulerOutput:
        step = self.scheduler.schedule()
        self.scheduler.update(step, self.executor.execute(step))
        self.scheduler.check()
        self.outputs += self.scheduler.take_outputs()
        return step

    def run(self) -> list[dict[str, tuple[int, int]]]:
        """Of each step who computes tokens from where, and how many."""
        steps = []
        while self.scheduler.has_work:
            step = self.step()
            steps.append({p.request_id: (p.num_computed_tokens, p.num_scheduled_tokens) for p in step.scheduled})
            assert len(steps) < 2000, "no progress"
        return steps

    def tokens(self, name: str) -> list[int]:
        return [token_id for out in self.outputs if out.request_id == name for token_id in out.token_ids]

    def cached(self, name: str) -> int:
        return next(out.num_cached_tokens for out in self.outputs if out.request_id == name)


def test_what_was_computed_before_is_not_computed_again() -> None:
    engine = Engine()
    prompt = list(range(100, 111))  # two full blocks and three tokens
    engine.add("a", prompt)
    engine.run()
    engine.add("b", prompt)
    assert engine.run()[0] == {"b": (10, 1)}  # the third block was filled by a's answer and begins like b's
    assert engine.tokens("a") == engine.tokens("b") == compute_continuation(prompt, 4)
    assert (engine.cached("a"), engine.cached("b")) == (0, 10)
    assert engine.scheduler.num_prefix_hits == 10


def test_the_next_turn_of_a_conversation_finds_prompt_and_answer() -> None:
    engine = Engine()
    prompt = list(range(10))
    engine.add("a", prompt, 7)
    engine.run()
    turn = [*prompt, *engine.tokens("a"), 501, 502, 503]
    engine.add("b", turn)
    assert engine.run()[0] == {"b": (16, 4)}


@pytest.mark.parametrize("length", [1, 3, 4, 5, 7, 8, 9, 12])
def test_the_last_token_is_computed_even_if_all_are_known(length: int) -> None:
    engine = Engine()
    prompt = list(range(200, 200 + length))
    engine.add("a", prompt, 1)
    engine.add("z", [*prompt, 1, 2, 3, 4], 1)
    engine.run()
    engine.add("b", prompt, 3)
    assert engine.run()[0] == {"b": (length - 1, 1)}
    assert engine.tokens("b") == compute_continuation(prompt, 3)


def test_another_salt_shares_nothing() -> None:
    engine = Engine()
    prompt = list(range(12))
    engine.add("a", prompt, salt="one")
    engine.run()
    engine.add("b", prompt, salt="two")
    assert engine.run()[0] == {"b": (0, 12)}
    engine.add("c", prompt, salt="one")
    assert engine.run()[0] == {"c": (11, 1)}


def test_a_prefix_that_is_being_computed_is_waited_for() -> None:
    engine = Engine(max_prefill_chunk=4)
    prompt = list(range(17))
    engine.add("a", prompt, 2)
    engine.add("b", [*prompt[:8], 900, 901], 2)
    engine.add("c", [5, 5, 5], 2)
    steps = engine.run()
    assert steps[0] == {"a": (0, 4), "c": (0, 3)}  # c has nothing to wait for
    assert steps[2] == {"a": (8, 4), "b": (8, 2)}  # as soon as what they share is there
    assert engine.tokens("b") == compute_continuation([*prompt[:8], 900, 901], 2)


@pytest.mark.parametrize("reason", ["abort", "error"])
def test_who_waits_for_a_request_that_goes_computes_it_itself(reason: str) -> None:
    engine = Engine(max_prefill_chunk=4)
    prompt = list(range(17))
    engine.add("a", prompt)
    engine.add("b", prompt)
    engine.step()
    assert engine.scheduler.num_waiting == 1
    engine.scheduler.finish(RequestId("a"), "abort" if reason == "abort" else "error")
    first = engine.run()[0]
    assert first == {"b": ((4, 4) if reason == "abort" else (0, 4))}
    assert engine.tokens("b") == compute_continuation(prompt, 4)


def test_who_waits_can_be_aborted() -> None:
    engine = Engine(max_prefill_chunk=4)
    engine.add("a", list(range(17)))
    engine.add("b", list(range(17)))
    engine.step()
    engine.scheduler.finish(RequestId("b"), "abort")
    engine.scheduler.check()
    engine.run()
    assert engine.tokens("b") == []
    assert engine.scheduler.num_waiting == 0


def test_who_was_woken_can_be_aborted_before_it_is_queued() -> None:
    engine = Engine(max_prefill_chunk=16)
    engine.add("a", list(range(12)), 9)
    engine.add("b", list(range(12)), 9)
    engine.step()
    engine.scheduler.finish(RequestId("b"), "abort")
    engine.add("b", list(range(12)), 2)  # the id is free again
    engine.run()
    assert engine.tokens("b") == compute_continuation(list(range(12)), 2)


def test_numbers_of_a_request_that_failed_are_kept_for_nobody() -> None:
    engine = Engine()
    prompt = list(range(12))
    engine.add("a", prompt)
    step = engine.scheduler.schedule()
    engine.executor.execute(step)
    engine.scheduler.update(step, ModelRunnerOutput(step=0, sampled=(SampledToken(RequestId("a"), -1),)))
    engine.scheduler.check()
    assert engine.scheduler.cache.tree.num_nodes == 0
    engine.add("b", prompt)
    assert engine.run()[0] == {"b": (0, 12)}


def test_what_a_request_computed_before_its_deadline_passed_is_kept() -> None:
    engine = Engine(max_prefill_chunk=8)
    prompt = list(range(20))
    engine.scheduler.add(msgspec.structs.replace(make_request("late", prompt), deadline_s=5.0, arrival_s=1.0))
    engine.step()
    step = engine.scheduler.schedule(6.0)
    assert step.scheduled == ()
    assert [out.error_class for out in engine.scheduler.take_outputs()] == ["DeadlineExceeded"]
    engine.executor.execute(step)
    engine.add("again", prompt)
    assert engine.run()[0] == {"again": (8, 8)}


def test_deadline_of_a_request_that_has_ended_passes_unnoticed() -> None:
    engine = Engine()
    engine.scheduler.add(msgspec.structs.replace(make_request("done", 4), deadline_s=5.0, arrival_s=1.0))
    engine.run()
    engine.add("other", [1, 2, 3])
    assert len(engine.scheduler.schedule(6.0).scheduled) == 1
    assert engine.scheduler.take_outputs() == []


def test_cached_blocks_give_way() -> None:
    engine = Engine(num_blocks=8)
    engine.add("a", list(range(20)), 2)
    engine.run()
    engine.add("b", list(range(300, 325)), 2)
    engine.run()
    assert engine.tokens("b") == compute_continuation(list(range(300, 325)), 2)
    engine.add("a2", list(range(20)), 2)
    assert engine.run()[0]["a2"][0] < 19
    assert engine.tokens("a2") == engine.tokens("a")


def test_less_important_requests_lose_their_prefixes_first() -> None:
    engine = Engine(num_blocks=8)
    engine.add("low", list(range(50, 61)), 1, priority=1)
    engine.run()
    engine.add("high", list(range(11)), 1)
    engine.run()
    engine.add("low again", list(range(50, 61)), 1, priority=1)  # used last, and still worth less
    engine.run()
    engine.add("other", list(range(400, 419)), 1)
    engine.run()
    engine.add("high again", list(range(11)), 1)
    assert engine.run()[0]["high again"][0] >= 8


def test_a_preempted_request_finds_what_it_had_computed() -> None:
    engine = Engine(num_blocks=8, max_prefill_chunk=16)
    engine.add("a", list(range(13)), 15)
    engine.add("b", list(range(500, 509)), 8)
    engine.run()
    assert engine.scheduler.num_preemptions > 0
    assert engine.tokens("b") == compute_continuation(list(range(500, 509)), 8)
    assert engine.scheduler.num_prompt_tokens < 13 + 2 * 9


def test_a_thousand_prompts_one_after_the_other_give_what_they_give_without_the_cache() -> None:
    draw = random.Random(4175)
    engine = Engine(num_blocks=40)
    texts = [[draw.randrange(3) for _ in range(60)] for _ in range(4)]
    for number in range(1000):
        start = draw.choice(texts)[: draw.randrange(1, 60)]
        prompt = [*start, *(draw.randrange(900) for _ in range(draw.randrange(3)))]
        engine.add(str(number), prompt, draw.randrange(1, 5))
        engine.run()
        tokens = engine.tokens(str(number))
        assert tokens == compute_continuation(prompt, len(tokens))
        engine.outputs.clear()
    assert engine.scheduler.num_prefix_hits > engine.scheduler.num_prefix_queries / 2
    assert len(engine.scheduler.cache.tree._evicted) > 100


def test_more_urgent_requests_do_not_wait_for_less_urgent_ones() -> None:
    engine = Engine(max_prefill_chunk=4)
    engine.add("low", list(range(17)), priority=1)
    engine.add("high", list(range(17)))
    engine.step()
    assert engine.scheduler.num_waiting == 1  # the less urgent one waits for the other
    engine = Engine(max_prefill_chunk=4)
    engine.add("low", list(range(17)), priority=1)
    engine.step()
    engine.add("high", list(range(17)))
    engine.step()
    assert engine.scheduler.num_waiting == 0
    engine.run()
    assert engine.tokens("low") == engine.tokens("high") == compute_continuation(list(range(17)), 4)


def test_tenants_share_nothing() -> None:
    engine = Engine()
    prompt = list(range(12))
    for tenant, expected in (("a", (0, 12)), ("b", (0, 12)), ("a", (11, 1))):
        engine.scheduler.add(msgspec.structs.replace(make_request(tenant, prompt, 1), tenant=tenant))
        assert engine.run()[0] == {tenant: expected}


def test_reasons_come_with_outputs_if_they_are_asked_for() -> None:
    engine = Engine()
    for name, explain, expected in (
        ("a", True, CacheMiss("new", 0)),
        ("b", True, CacheMiss("hit", 11)),
        ("c", 0, None),
    ):
        request = make_request(name, list(range(12)), 2)
        engine.scheduler.add(msgspec.structs.replace(request, explain_cache=bool(explain)))
        engine.run()
        assert {out.cache_miss for out in engine.outputs if out.request_id == name} == {expected}


PROMPTS = st.lists(st.integers(0, 1), min_size=1, max_size=24)  # a small alphabet, so that many share


@settings(max_examples=80, deadline=None)
@given(
    shapes=st.lists(
        st.tuples(PROMPTS, st.integers(1, 16), st.integers(0, 1), st.sampled_from(["", "x"])), min_size=1, max_size=12
    ),
    chunk=st.sampled_from([1, 3, 16, 64]),
    num_blocks=st.integers(11, 40),
    max_repeat=st.sampled_from([1, 3]),
    gap=st.integers(0, 3),
)
def test_sharing_does_not_change_outputs(
    shapes: list[tuple[list[int], int, int, str]], chunk: int, num_blocks: int, max_repeat: int, gap: int
) -> None:
    engine = Engine(num_blocks, max_prefill_chunk=chunk, max_num_requests=4, max_repeat=max_repeat)
    for number, (prompt, max_tokens, priority, salt) in enumerate(shapes):
        engine.add(str(number), prompt, max_tokens, salt, priority)
        for _ in range(gap):
            if engine.scheduler.has_work:
                engine.step()
    engine.run()
    for number, (prompt, max_tokens, _, _) in enumerate(shapes):
        assert engine.tokens(str(number)) == compute_continuation(prompt, max_tokens)
    assert engine.scheduler.pool.num_free == num_blocks


class SharingMachine(RuleBasedStateMachine):
    """Requests of a tiny alphabet come, go, fail and are stepped in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.engine = Engine(num_blocks=14, max_num_requests=4, max_num_batched_tokens=12, max_prefill_chunk=5)
        self.shapes: dict[str, tuple[list[int], int]] = {}
        self.failed: set[str] = set()

    @rule(prompt=PROMPTS, max_tokens=st.integers(1, 12), salt=st.sampled_from(["", "x"]))
    def add(self, prompt: list[int], max_tokens: int, salt: str) -> None:
        name = str(len(self.shapes))
        self.shapes[name] = (prompt, max_tokens)
        self.engine.add(name, prompt, max_tokens, salt)

    @precondition(lambda self: self.shapes)
    @rule(data=st.data(), reason=st.sampled_from(["abort", "error"]))
    def finish(self, data: st.DataObject, reason: str) -> None:
        name = data.draw(st.sampled_from(sorted(self.shapes)))
        self.engine.scheduler.finish(RequestId(name), "abort" if reason == "abort" else "error")

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
        assert self.engine.scheduler.pool.num_free == 14
        for name, (prompt, max_tokens) in self.shapes.items():
            tokens = self.engine.tokens(name)
            assert tokens == compute_continuation(prompt, max_tokens)[: len(tokens)]


SharingMachine.TestCase.settings = settings(max_examples=80, stateful_step_count=25, deadline=None)
TestSharingMachine = SharingMachine.TestCase
