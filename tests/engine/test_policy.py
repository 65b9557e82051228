"""Deadlines, tenants and pace under the whole scheduler, with a clock that follows from what is computed."""

import math
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.engine.fakes import HashExecutor, compute_continuation, make_limits, make_request

from pelton.core.outputs import RequestOutput
from pelton.core.step import NewRequest
from pelton.engine.scheduler import Scheduler
from pelton.engine.waiting import AGING_S
from pelton.kvcache.block_pool import BlockPool

pytestmark = pytest.mark.unit
STEP_S, TOKEN_S = 0.008, 0.001


class Engine:
    """A scheduler on a machine that takes STEP_S for a step and TOKEN_S for each token of it."""

    def __init__(self, num_blocks: int = 256, target_itl_s: float = math.inf, **limits: int) -> None:
        self.limits = make_limits(target_itl_s=target_itl_s, **limits)
        self.scheduler = Scheduler(self.limits, BlockPool(num_blocks, 4))
        self.executor = HashExecutor(num_blocks, 4)
        self.now_s = 100.0
        self.outputs: list[tuple[float, RequestOutput]] = []

    def step(self) -> float:
        """Make a step; what it took."""
        step = self.scheduler.schedule(self.now_s)
        num_tokens = sum(part.num_scheduled_tokens for part in step.scheduled) + len(step.scheduled) * (step.repeat - 1)
        took_s = STEP_S * step.repeat + TOKEN_S * num_tokens
        self.now_s += took_s
        self.scheduler.update(step, self.executor.execute(step), self.now_s)
        self.scheduler.check()
        self.outputs += [(self.now_s, output) for output in self.scheduler.take_outputs()]
        return took_s

    def run(self) -> None:
        while self.scheduler.has_work:
            self.step()
            assert self.scheduler.num_steps < 5000, "no progress"

    def times(self, name: str) -> list[float]:
        return [at_s for at_s, output in self.outputs if output.request_id == name and output.token_ids]

    def last(self, name: str) -> RequestOutput:
        return [output for _, output in self.outputs if output.request_id == name][-1]


def test_a_deadline_ends_a_request_wherever_it_is() -> None:
    engine = Engine(max_num_requests=2)
    engine.scheduler.add(make_request("running", 5, 200, deadline_s=100.5), 100.0)
    engine.scheduler.add(make_request("other", 5, 60, deadline_s=500.0), 100.0)
    engine.scheduler.add(make_request("waiting", 5, 10, deadline_s=100.2), 100.0)
    engine.run()
    for name, where in (("running", "computed"), ("waiting", "waited")):
        last = engine.last(name)
        assert (last.finish_reason, last.error_class) == ("error", "DeadlineExceeded")
        assert f"while it {'was computed' if where == 'computed' else 'waited'}" in str(last.error)
    assert engine.last("other").finish_reason == "length"
    assert max(engine.times("running")) < 100.6
    assert engine.scheduler.pool.num_free == 256


def test_a_deadline_of_a_request_that_ended_ends_nobody_else() -> None:
    engine = Engine()
    engine.scheduler.add(make_request("a", 5, 2, deadline_s=100.5), 100.0)
    engine.run()
    engine.scheduler.add(make_request("a", 5, 100), engine.now_s)
    engine.run()
    assert engine.last("a").finish_reason == "length"


def test_a_flood_does_not_keep_others_waiting() -> None:
    def measure(flood: int) -> float:
        engine = Engine(max_num_requests=4)
        for number in range(flood):
            engine.scheduler.add(make_request(f"flood{number}", 8, 10, tenant="flood"), engine.now_s)
        for _ in range(5 if flood else 0):
            engine.step()
        waits = []
        for number in range(8):
            arrived_s = engine.now_s
            engine.scheduler.add(make_request(f"polite{number}", 8, 10, tenant="polite"), arrived_s)
            while not engine.times(f"polite{number}"):
                engine.step()
            waits.append(engine.times(f"polite{number}")[0] - arrived_s)
        return max(waits)

    assert measure(300) < measure(0) + 10 * (STEP_S + 4 * TOKEN_S + 8 * TOKEN_S)  # one answer of the flood at most


def test_a_long_prompt_hardly_slows_streams() -> None:
    engine = Engine(1200, 0.0, max_prefill_chunk=64, max_model_len=2048, max_num_requests=16)
    for number in range(8):
        engine.scheduler.add(make_request(f"stream{number}", 4, 300), engine.now_s)
    engine.scheduler.add(make_request("warm", 60, 1), engine.now_s)
    for _ in range(30):
        engine.step()
    engine.scheduler.add(make_request("long", 1500, 2), engine.now_s)
    while not engine.times("long"):
        assert engine.step() <= 2 * (STEP_S + 8 * TOKEN_S) * 1.05
    engine.run()
    prompt = make_request("long", 1500).prompt_token_ids
    assert [token for _, out in engine.outputs if out.request_id == "long" for token in out.token_ids] == (
        compute_continuation(prompt, 2)
    )


def make_shapes() -> st.SearchStrategy[list[tuple[int, int, int, str, float]]]:
    shape = st.tuples(
        st.integers(1, 30), st.integers(1, 20), st.integers(-1, 2), st.sampled_from(["", "a", "b"]), st.floats(0, 1)
    )
    return st.lists(shape, min_size=1, max_size=12)


@settings(max_examples=60, deadline=None)
@given(shapes=make_shapes(), target_s=st.sampled_from([0.0, 0.02, math.inf]), num_blocks=st.integers(14, 60))
def test_policies_change_when_tokens_come_and_not_which(
    shapes: list[tuple[int, int, int, str, float]], target_s: float, num_blocks: int
) -> None:
    engine = Engine(num_blocks, target_s, max_num_requests=4, max_repeat=3)
    requests: list[NewRequest] = []
    for number, (prompt, num, priority, tenant, patience_s) in enumerate(shapes):
        deadline_s = 0.0 if patience_s > 0.5 else engine.now_s + patience_s
        requests.append(make_request(str(number), prompt, num, priority=priority, tenant=tenant, deadline_s=deadline_s))
        engine.scheduler.add(requests[-1], engine.now_s)
        if number % 2:
            engine.step()
    engine.run()
    for request, (_, num, _, _, _) in zip(requests, shapes, strict=True):
        tokens = [t for _, out in engine.outputs if out.request_id == request.request_id for t in out.token_ids]
        assert tokens == compute_continuation(request.prompt_token_ids, num)[: len(tokens)]
        last = engine.last(request.request_id)
        assert last.finish_reason == ("length" if len(tokens) == num else "error")
        assert request.deadline_s or last.finish_reason == "length"


def test_what_prompts_cost_is_learned_from_prompts_though_others_give_way() -> None:
    engine = Engine(14, 0.0, max_num_requests=6)
    for number in range(6):
        engine.scheduler.add(make_request(str(number), 6, 24), engine.now_s)
    engine.step()
    while engine.scheduler.has_work:
        engine.step()
        assert engine.scheduler.pace.prompt_tokens_per_s >= 0.0
    assert engine.scheduler.num_preemptions > 3


def test_a_tenant_that_waits_for_long_does_not_keep_others_out() -> None:
    engine = Engine(max_num_requests=2, max_prefill_chunk=8)
    for number in range(400):
        engine.scheduler.add(make_request(f"flood{number}", 8, 20, tenant="flood"), engine.now_s)
    while engine.now_s < 100.0 + 2 * AGING_S:
        engine.step()
    arrived_s = engine.now_s
    engine.scheduler.add(make_request("polite", 8, 20, tenant="polite"), arrived_s)
    while not engine.times("polite"):
        engine.step()
    assert engine.times("polite")[0] - arrived_s < 1.0


class PolicyMachine(RuleBasedStateMachine):
    """Requests of several tenants, classes and deadlines come, are aborted, computed and kept waiting in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.engine = Engine(16, 0.0, max_num_requests=3, max_num_batched_tokens=12, max_repeat=2)
        self.requests: list[tuple[NewRequest, int]] = []
        self.aborted: set[str] = set()

    @rule(
        prompt=st.lists(st.integers(0, 1), min_size=1, max_size=20),
        num=st.integers(1, 16),
        priority=st.integers(-2, 2),
        tenant=st.sampled_from(["", "a", "b"]),
        patience_s=st.sampled_from([0.0, 0.0, 0.1, 40.0]),
    )
    def add(self, prompt: list[int], num: int, priority: int, tenant: str, patience_s: float) -> None:
        now_s = self.engine.now_s
        request = make_request(
            str(len(self.requests)),
            prompt,
            num,
            priority=priority,
            tenant=tenant,
            arrival_s=now_s,
            deadline_s=now_s + patience_s if patience_s else 0.0,
        )
        self.requests.append((request, num))
        self.engine.scheduler.add(request, now_s)

    @precondition(lambda self: self.requests)
    @rule(data=st.data())
    def abort(self, data: st.DataObject) -> None:
        request, _ = data.draw(st.sampled_from(self.requests))
        self.engine.scheduler.finish(request.request_id, "abort")
        self.aborted.add(request.request_id)

    @rule(num_steps=st.integers(1, 6))
    def step(self, num_steps: int) -> None:
        for _ in range(num_steps):
            if self.engine.scheduler.has_work:
                began_s = self.engine.now_s
                self.engine.step()
                for request in self.engine.scheduler._live.values():
                    assert not 0.0 < request.new.deadline_s <= began_s, "a request lives on behind its deadline"

    @rule(seconds=st.sampled_from([0.05, 31.0, 300.0]))
    def wait(self, seconds: float) -> None:
        self.engine.now_s += seconds

    @invariant()
    def sound(self) -> None:
        self.engine.scheduler.check()
        assert self.engine.scheduler.pace.prompt_tokens_per_s >= 0.0

    def teardown(self) -> None:
        self.engine.run()
        self.engine.outputs += [(self.engine.now_s, output) for output in self.engine.scheduler.take_outputs()]
        assert self.engine.scheduler.pool.num_free == 16
        ends = Counter(output.request_id for _, output in self.engine.outputs if output.finish_reason is not None)
        assert ends == {request.request_id: 1 for request, _ in self.requests}
        for request, num in self.requests:
            outputs = [output for _, output in self.engine.outputs if output.request_id == request.request_id]
            tokens = [token_id for output in outputs for token_id in output.token_ids]
            assert tokens == compute_continuation(request.prompt_token_ids, num)[: len(tokens)]
            last = outputs[-1]
            is_late = last.error_class == "DeadlineExceeded" and request.deadline_s > 0.0
            is_aborted = last.finish_reason == "abort" and request.request_id in self.aborted
            assert is_late or is_aborted or (last.finish_reason == "length" and len(tokens) == num)


PolicyMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
TestPolicyMachine = PolicyMachine.TestCase
