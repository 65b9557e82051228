"""The oracle under the real scheduler: right answers, and none when anything about the cache is wrong."""

from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engine.fakes import make_limits, make_request

from pelton.core.outputs import RequestOutput
from pelton.core.step import BlockCopy, BlockId, NewRequest, SchedulerOutput
from pelton.engine.loop import EngineLoop
from pelton.engine.scheduler import Scheduler
from pelton.errors import ConfigError
from pelton.kvcache.block_pool import BlockPool
from pelton.oracle.chain import compute_answer
from pelton.oracle.executor import MAX_REPEAT, OracleExecutor, RowExecutor, ScriptedExecutor, Speed, make_executor

pytestmark = pytest.mark.unit
BLOCK = 4


def run(executor: RowExecutor, requests: list[NewRequest], num_blocks: int = 24) -> dict[str, list[RequestOutput]]:
    limits = make_limits(max_num_requests=4, max_prefill_chunk=5, max_repeat=MAX_REPEAT)
    outputs: dict[str, list[RequestOutput]] = {request.request_id: [] for request in requests}
    for output in EngineLoop(Scheduler(limits, BlockPool(num_blocks, BLOCK)), executor).run(requests):
        outputs[output.request_id].append(output)
    return outputs


def tokens(outputs: list[RequestOutput]) -> list[int]:
    return [token_id for output in outputs for token_id in output.token_ids]


@settings(max_examples=60, deadline=None)
@given(
    shapes=st.lists(
        st.tuples(
            st.lists(st.integers(0, 1), min_size=1, max_size=20),
            st.integers(1, 14),
            st.sampled_from(["", "x"]),
            st.sampled_from([None, 3, 4]),
        ),
        min_size=1,
        max_size=8,
    ),
    num_blocks=st.integers(10, 30),
)
def test_answers_are_what_the_client_computes(
    shapes: list[tuple[list[int], int, str, int | None]], num_blocks: int
) -> None:
    requests = [
        make_request(str(number), prompt, num, salt=salt, seed=seed, temperature=0.0 if seed is None else 1.0)
        for number, (prompt, num, salt, seed) in enumerate(shapes)
    ]
    outputs = run(OracleExecutor(num_blocks, BLOCK), requests, num_blocks)
    for request, (prompt, num, salt, seed) in zip(requests, shapes, strict=True):
        assert tokens(outputs[request.request_id]) == compute_answer(prompt, num, cache_salt=salt, seed=seed)


class Broken(RowExecutor):
    """An oracle to which every step is told otherwise than it was decided."""

    def __init__(self, change: Callable[[SchedulerOutput], SchedulerOutput]) -> None:
        super().__init__()
        self.oracle = OracleExecutor(24, BLOCK)
        self.change = change

    def execute(self, step: SchedulerOutput):  # type: ignore[no-untyped-def]
        return self.oracle.execute(self.change(step))


def replace_parts(step: SchedulerOutput, **change: Callable[..., object]) -> SchedulerOutput:
    scheduled = tuple(
        msgspec.structs.replace(part, **{name: function(part) for name, function in change.items()})
        for part in step.scheduled
    )
    return msgspec.structs.replace(step, scheduled=scheduled)


def swap_late(part):  # type: ignore[no-untyped-def]
    """Two blocks of a long request change places once it decodes."""
    ids = part.block_ids
    return (ids[1], ids[0], *ids[2:]) if part.num_computed_tokens > 16 else ids


def wrong_block_late(part):  # type: ignore[no-untyped-def]
    return (*part.block_ids[:-1], BlockId(23)) if part.num_computed_tokens > 14 else part.block_ids


def skip_token(part):  # type: ignore[no-untyped-def]
    return part.num_computed_tokens + (part.num_scheduled_tokens > 3)


@pytest.mark.parametrize(
    "change",
    [
        lambda step: replace_parts(step, block_ids=swap_late),
        lambda step: replace_parts(step, block_ids=wrong_block_late),
        lambda step: replace_parts(
            step,
            num_computed_tokens=skip_token,
            num_scheduled_tokens=lambda part: part.num_scheduled_tokens - (part.num_scheduled_tokens > 3),
        ),
    ],
    ids=["blocks swapped", "a wrong block", "a token left out"],
)
def test_what_is_wrong_is_noticed(change: Callable[[SchedulerOutput], SchedulerOutput]) -> None:
    request = make_request("a", list(range(14)), 40)
    outputs = run(Broken(change), [request])["a"]
    assert tokens(outputs) != compute_answer(range(14), 40)
    assert outputs[-1].finish_reason == "error"


def test_a_copy_that_is_not_made_is_noticed() -> None:
    first, second = make_request("a", list(range(8)), 6), make_request("b", [*range(6), 99], 6)
    executor = Broken(lambda step: msgspec.structs.replace(step, copies=()))
    loop = EngineLoop(Scheduler(make_limits(), BlockPool(24, BLOCK)), executor)
    assert len(tokens(list(loop.run([first])))) == 6
    assert list(loop.run([second]))[-1].finish_reason == "error"


def test_copies_carry_digests() -> None:
    oracle = OracleExecutor(2, BLOCK)
    oracle._memory[:] = bytes(range(128))
    oracle.copy(BlockId(0), BlockId(1))
    assert oracle._memory[64:] == bytes(range(64))
    assert BlockCopy(BlockId(0), BlockId(1)).source == 0


def test_the_scripted_executor_says_what_it_is_told() -> None:
    prompt = [*b"say \x02no\x03 \x02hi there\x03 now"]
    request = make_request("a", prompt, 40, eos=(256,))
    outputs = run(ScriptedExecutor(256), [request, make_request("b", [*b"nothing"], 4, eos=(256,))])
    assert bytes(tokens(outputs["a"])[:-1]) == b"hi there"
    assert tokens(outputs["a"])[-1] == 256
    assert outputs["a"][-1].finish_reason == "stop"
    assert tokens(outputs["b"]) == [256]


@pytest.mark.parametrize("num_logprobs", [0, 1, 5])
def test_log_probabilities_have_the_form_of_a_models(num_logprobs: int) -> None:
    outputs = run(OracleExecutor(24, BLOCK), [make_request("a", [1, 2], 3, logprobs=num_logprobs)])["a"]
    logprobs = [entry for output in outputs for entry in output.logprobs]
    assert [len(entry.top_token_ids) for entry in logprobs] == [num_logprobs] * 3
    assert [len(entry.top_logprobs) for entry in logprobs] == [num_logprobs] * 3
    if num_logprobs:
        assert [entry.top_token_ids[0] for entry in logprobs] == tokens(outputs)


def test_executors_by_name() -> None:
    assert isinstance(make_executor("oracle", 4, 4, 256), OracleExecutor)
    assert isinstance(make_executor("scripted:step_ms=1", 4, 4, 256), ScriptedExecutor)
    assert Speed.parse("step_ms=2,token_us=50") == Speed(step_ms=2.0, token_us=50.0)
    with pytest.raises(ConfigError, match="expected model, oracle or scripted"):
        make_executor("magic", 4, 4, 256)
    for text in ("step_ms=x", "speed=3", "step_ms=-1"):
        with pytest.raises(ConfigError, match="is no speed"):
            Speed.parse(text)
