"""When a decode step is repeated, how often, and that nobody can tell from the answers."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engine.fakes import HashExecutor, compute_continuation, make_limits, make_request

from pelton.core.outputs import RequestOutput
from pelton.core.step import NewRequest, RequestId
from pelton.engine.repeat import MAX_CALL_S, choose_repeat
from pelton.engine.request import Request
from pelton.engine.scheduler import Scheduler
from pelton.kvcache.block_pool import BlockPool

pytestmark = pytest.mark.unit


class Engine:
    """A scheduler whose steps all take `step_s`, whatever is in them."""

    def __init__(self, num_blocks: int = 64, *, step_s: float = 0.0, **limits: int) -> None:
        self.limits = make_limits(max_repeat=4, **limits)
        self.scheduler = Scheduler(self.limits, BlockPool(num_blocks, 4))
        self.executor = HashExecutor(num_blocks, 4)
        self.step_s = step_s
        self.now_s = 0.0
        self.outputs: list[RequestOutput] = []

    def step(self) -> int:
        """The step's repeats."""
        step = self.scheduler.schedule(self.now_s)
        self.now_s += self.step_s * step.repeat
        self.scheduler.update(step, self.executor.execute(step), self.now_s)
        self.scheduler.check()
        self.outputs += self.scheduler.take_outputs()
        return step.repeat

    def run(self) -> list[int]:
        repeats = []
        while self.scheduler.has_work:
            repeats.append(self.step())
            assert len(repeats) < 1000, "no progress"
        return repeats

    def tokens(self, request: NewRequest) -> list[int]:
        return [token for out in self.outputs if out.request_id == request.request_id for token in out.token_ids]


def test_only_a_step_after_the_prompt_is_repeated_and_never_past_the_last_token() -> None:
    engine = Engine()
    request = make_request("a", 5, 8)
    engine.scheduler.add(request)
    assert engine.run() == [1, 4, 3]
    assert engine.tokens(request) == compute_continuation(request.prompt_token_ids, 8)


def test_tokens_behind_a_stop_are_dropped() -> None:
    prompt = make_request("a", 5).prompt_token_ids
    continuation = compute_continuation(prompt, 3)
    engine = Engine()
    request = make_request("a", prompt, 50, eos=(continuation[2],))
    engine.scheduler.add(request)
    engine.run()
    assert engine.tokens(request) == continuation
    assert engine.outputs[-1].finish_reason == "stop"
    assert engine.scheduler.pool.num_free == engine.scheduler.pool.num_blocks


def test_nothing_is_repeated_while_somebody_waits() -> None:
    engine = Engine(max_num_requests=1)
    for name in "ab":
        engine.scheduler.add(make_request(name, 5, 4))
    assert engine.run() == [1, 1, 1, 1, 1, 3]


def test_a_prompt_in_pieces_keeps_the_others_from_repeating() -> None:
    engine = Engine(max_prefill_chunk=4)
    engine.scheduler.add(make_request("a", 3, 20))
    engine.step()
    engine.scheduler.add(make_request("b", 12, 20))
    assert [engine.step() for _ in range(4)] == [1, 1, 1, 4]


@pytest.mark.parametrize(
    "sampling",
    [
        {"logprobs": 0},
        {"presence_penalty": 0.1},
        {"logit_bias": {3: 1.0}},
        {"min_tokens": 3},
        {"repetition_penalty": 2.0},
    ],
)
def test_what_changes_from_token_to_token_is_not_repeated(sampling: dict[str, object]) -> None:
    engine = Engine()
    engine.scheduler.add(make_request("a", 5, 6))
    engine.scheduler.add(make_request("b", 5, 6, **sampling))
    assert set(engine.run()) == {1}


def test_without_blocks_for_all_repeats_there_are_none() -> None:
    engine = Engine(num_blocks=5)
    for name in "ab":
        engine.scheduler.add(make_request(name, 7, 9))  # two blocks each; one is left, and two would be needed
    assert [engine.step(), engine.step()] == [1, 1]


@pytest.mark.parametrize(("step_s", "repeat"), [(0.0, 4), (0.01, 4), (0.02, 2), (MAX_CALL_S, 1), (1.0, 1)])
def test_a_call_stays_short(step_s: float, repeat: int) -> None:
    engine = Engine(step_s=step_s)
    engine.scheduler.add(make_request("a", 5, 20))
    engine.step()
    assert engine.step() == repeat


def test_choice_of_none_is_once() -> None:
    assert choose_repeat([], 4, 0.0) == 1
    request = Request(make_request("a", 5, 20), 0, 25, 0.0)
    assert choose_repeat([request], 4, 0.0) == 1  # five tokens to compute
    request.num_computed_tokens = 4
    assert choose_repeat([request], 4, 0.0) == 4
    assert choose_repeat([request], 1, 0.0) == 1


@settings(max_examples=60, deadline=None)
@given(
    shapes=st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30), st.booleans()), min_size=1, max_size=8),
    num_blocks=st.integers(18, 60),
    aborted=st.integers(0, 7),
)
def test_repeats_do_not_change_outputs(shapes: list[tuple[int, int, bool]], num_blocks: int, aborted: int) -> None:
    engine = Engine(num_blocks, max_num_requests=4)
    requests = [
        make_request(str(number), prompt, max_tokens, **({"logprobs": 1} if wants_logprobs else {}))
        for number, (prompt, max_tokens, wants_logprobs) in enumerate(shapes)
    ]
    for request in requests:
        engine.scheduler.add(request)
        engine.step()
    engine.scheduler.finish(RequestId(str(aborted)), "abort")
    engine.run()
    for number, request in enumerate(requests):
        expected = compute_continuation(request.prompt_token_ids, shapes[number][1])
        tokens = engine.tokens(request)
        assert tokens == expected[: len(tokens)]
        assert len(tokens) == len(expected) or number == aborted
    assert engine.scheduler.pool.num_free == num_blocks
