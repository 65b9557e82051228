"""The runner under the real scheduler: tokens are those of the hash model, whatever is chunked, batched, preempted."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engine.fakes import VOCAB_SIZE, compute_continuation, make_request
from tests.runner.fakes import HashExecutable, make_runner

from pelton.core.outputs import RequestOutput
from pelton.core.step import NewRequest, RequestId, SchedulerOutput, TokenLogprobs
from pelton.engine.limits import SchedulerLimits
from pelton.engine.loop import EngineLoop
from pelton.engine.scheduler import Scheduler
from pelton.kvcache.block_pool import BlockPool

pytestmark = pytest.mark.unit


def make_loop(num_blocks: int = 64, **changes: int) -> tuple[EngineLoop, HashExecutable]:
    chunk = changes.pop("max_prefill_chunk", 16)
    runner, executable = make_runner(num_blocks, **changes)
    limits = executable.limits
    scheduler_limits = SchedulerLimits(
        max_num_batched_tokens=limits.max_num_batched_tokens,
        max_prefill_chunk=chunk,
        max_num_requests=limits.max_num_requests,
        max_model_len=limits.max_blocks_per_request * limits.block_size,
        vocab_size=VOCAB_SIZE,
    )
    return EngineLoop(Scheduler(scheduler_limits, BlockPool(num_blocks, limits.block_size)), runner), executable


def run(loop: EngineLoop, requests: list[NewRequest]) -> dict[str, list[RequestOutput]]:
    outputs: dict[str, list[RequestOutput]] = {request.request_id: [] for request in requests}
    for output in loop.run(requests):
        outputs[output.request_id].append(output)
    assert loop.broken is None
    return outputs


@settings(max_examples=40, deadline=None)
@given(
    shapes=st.lists(st.tuples(st.integers(1, 40), st.integers(1, 20)), min_size=1, max_size=12),
    chunk=st.sampled_from([1, 7, 64]),
    num_blocks=st.integers(16, 64),
)
def test_tokens_do_not_depend_on_chunks_batches_or_preemption(
    shapes: list[tuple[int, int]], chunk: int, num_blocks: int
) -> None:
    loop, _ = make_loop(num_blocks, max_prefill_chunk=chunk)
    requests = [make_request(str(number), *shape) for number, shape in enumerate(shapes)]
    outputs = run(loop, requests)
    for request, (_, max_tokens) in zip(requests, shapes, strict=True):
        got = [token_id for output in outputs[request.request_id] for token_id in output.token_ids]
        assert got == compute_continuation(request.prompt_token_ids, max_tokens)


def test_logprobs_are_given_to_those_who_asked() -> None:
    loop, _ = make_loop()
    outputs = run(loop, [make_request("two", logprobs=2), make_request("none"), make_request("zero", logprobs=0)])
    assert outputs["two"][0].logprobs == (TokenLogprobs(-0.5, (0, 1), (0.0, -1.0)),)
    assert outputs["zero"][0].logprobs == (TokenLogprobs(-0.5),)
    assert outputs["none"][0].logprobs == ()


def test_request_whose_logits_are_not_numbers_ends_alone() -> None:
    loop, executable = make_loop()
    executable.choose = lambda token_ids: -1 if token_ids[0] == 13 else 5  # type: ignore[method-assign]
    outputs = run(loop, [make_request("bad", [13, 1], logprobs=1), make_request("good", [14, 1], 3, logprobs=1)])
    assert [output.finish_reason for output in outputs["bad"]] == ["error"]
    assert outputs["good"][-1].finish_reason == "length"


def test_seed_and_position_do_not_depend_on_a_restart() -> None:
    def positions_and_seeds(outputs: tuple[int, ...]) -> list[tuple[int, int]]:
        loop, executable = make_loop()
        run(loop, [make_request("a", [1, 2], 6, outputs=outputs)])
        return [
            (int(step.sampling.position_S[0]), int(step.sampling.seed_S[0]))
            for step in executable.steps
            if len(step.logits_index_S)
        ]

    whole = positions_and_seeds(())
    tokens = compute_continuation([1, 2], 6)
    assert positions_and_seeds(tuple(tokens[:4])) == whole[4:]


def test_rows_are_freed_by_a_step_that_computes_nothing() -> None:
    runner, executable = make_runner()
    runner.execute(SchedulerOutput(step=0, added=(make_request("a"),)))
    runner.execute(SchedulerOutput(step=1, finished=(RequestId("a"),)))
    runner.execute(SchedulerOutput(step=2, added=(make_request("a"),)))
    assert executable.steps == []


def test_closed_runner_lets_go_of_its_memory() -> None:
    runner, _ = make_runner()
    runner.close()
    with pytest.raises(AssertionError, match="closed runner"):
        runner.execute(SchedulerOutput(step=0))
