"""The same request alone, in a batch, in chunks, preempted: the same tokens and log-probabilities, on each backend."""

from collections.abc import Iterator
from functools import reduce

import pytest
from tests.engine.fakes import make_request
from tests.tiny_plans import VOCAB, tiny_plan

from pelton.backends.cpu import CpuBackend
from pelton.backends.executable import Backend, Limits
from pelton.backends.reference import ReferenceBackend
from pelton.core.step import ModelRunnerOutput, NewRequest, SchedulerOutput, TokenLogprobs
from pelton.engine.executor import Executor
from pelton.engine.limits import SchedulerLimits
from pelton.engine.loop import EngineLoop
from pelton.engine.scheduler import Scheduler
from pelton.kvcache.block_pool import BlockPool
from pelton.runner.kv_pool import KvPool
from pelton.runner.model_runner import ModelRunner

pytestmark = pytest.mark.cpu

BLOCK_SIZE = 32
MAX_MODEL_LEN = 128
PROMPT_LENGTHS = (27, 28, 29, 30, 31, 74)  # five that need another block at about the same time
BACKENDS: list[Backend] = [ReferenceBackend("float32"), CpuBackend()]


def make_engine(
    backend: Backend,
    *,
    chunk: int,
    num_requests: int,
    num_blocks: int,
    max_repeat: int = 1,
    kv_dtype: str = "auto",
    model: str = "gemma_like",
    max_model_len: int = MAX_MODEL_LEN,
    num_threads: int = 1,
    enable_prefix_caching: bool = True,
) -> EngineLoop:
    """An engine over a small random model; its cache is full of nonsense at first. gemma_like has sliding windows."""
    limits = Limits(
        max_num_batched_tokens=128,
        max_num_requests=num_requests,
        max_num_logits_rows=num_requests,
        block_size=BLOCK_SIZE,
        max_blocks_per_request=max_model_len // BLOCK_SIZE,
        num_threads=num_threads,
        kv_dtype=kv_dtype,
    )
    tiny = tiny_plan(model)
    plan = reduce(lambda plan, rewrite: rewrite(plan), backend.passes, tiny.plan)
    executable = backend.compile(plan, tiny.weights, limits)
    pool = KvPool(num_blocks, executable.kv_bytes_per_block)
    pool.memory[:] = 0xFF
    runner = ModelRunner(executable, limits, pool, max_model_len=max_model_len, vocab_size=VOCAB)
    scheduler_limits = SchedulerLimits(
        max_num_batched_tokens=128,
        max_prefill_chunk=chunk,
        max_num_requests=num_requests,
        max_model_len=max_model_len,
        vocab_size=VOCAB,
        max_repeat=max_repeat,
        enable_prefix_caching=enable_prefix_caching,
    )
    return EngineLoop(Scheduler(scheduler_limits, BlockPool(num_blocks, BLOCK_SIZE)), runner)


def make_requests() -> Iterator[NewRequest]:
    kinds: list[dict[str, object]] = [
        {},
        {"temperature": 1.0, "seed": 3},
        {"temperature": 0.8, "top_k": 20, "top_p": 0.9},
        {"frequency_penalty": 0.5, "repetition_penalty": 1.3},
        {"temperature": 1.5, "min_p": 0.05, "presence_penalty": 1.0, "logit_bias": {5: 3.0}},
        {"min_tokens": 8, "stop_token_ids": tuple(range(0, VOCAB, 2))},
    ]
    for number, kind in enumerate(kinds):
        prompt = [(37 * number + 11 * position) % VOCAB for position in range(PROMPT_LENGTHS[number])]
        yield make_request(str(number), prompt, 30, logprobs=2, **kind)


Answer = dict[str, list[tuple[int, TokenLogprobs]]]


def run(engine: EngineLoop, requests: list[NewRequest]) -> Answer:
    answers: Answer = {request.request_id: [] for request in requests}
    for output in engine.run(requests):
        assert output.error is None
        answers[output.request_id] += zip(output.token_ids, output.logprobs, strict=True)
    return answers


def check_same(backend: Backend, got: Answer, expected: Answer) -> None:
    """Bitwise. The reference sums in whatever order numpy's library likes for a shape, so its numbers are close."""
    for request_id, answer in expected.items():
        assert [token_id for token_id, _ in got[request_id]] == [token_id for token_id, _ in answer]
        if backend.name != "reference":
            assert got[request_id] == answer
        chosen = [[logprobs.chosen for _, logprobs in answers[request_id]] for answers in (got, expected)]
        assert chosen[0] == pytest.approx(chosen[1], abs=1e-4)


@pytest.mark.parametrize("backend", BACKENDS, ids=lambda backend: backend.name)
def test_tokens_do_not_depend_on_company_chunks_or_preemption(backend: Backend) -> None:
    requests = list(make_requests())
    alone_engine = make_engine(backend, chunk=128, num_requests=1, num_blocks=4)
    alone: Answer = {}
    for request in requests:
        alone |= run(alone_engine, [request])
    assert all(len(answer) >= 8 for answer in alone.values())
    for chunk in (1, 7, 64):
        engine = make_engine(backend, chunk=chunk, num_requests=6, num_blocks=24)
        check_same(backend, run(engine, requests), alone)
    crowded = make_engine(backend, chunk=64, num_requests=6, num_blocks=9)
    check_same(backend, run(crowded, requests), alone)
    assert crowded.stats().num_preemptions > 0


@pytest.mark.parametrize("backend", BACKENDS, ids=lambda backend: backend.name)
def test_resumed_request_goes_on_as_if_nothing_had_happened(backend: Backend) -> None:
    engine = make_engine(backend, chunk=16, num_requests=2, num_blocks=8)
    (request,) = [request for request in make_requests() if request.request_id == "2"]
    whole = run(engine, [request])["2"]
    received = tuple(token_id for token_id, _ in whole[:11])
    resumed = make_request(
        "2", request.prompt_token_ids, 30, outputs=received, logprobs=2, temperature=0.8, top_k=20, top_p=0.9
    )
    check_same(backend, run(engine, [resumed]), {"2": whole[11:]})


def test_repeated_steps_choose_what_single_ones_do() -> None:
    kinds: list[tuple[int, dict[str, object]]] = [
        (27, {}),
        (28, {"temperature": 1.0, "seed": 3}),
        (74, {"temperature": 0.8, "top_k": 20, "top_p": 0.9}),
    ]
    requests = [
        make_request(str(number), [(37 * number + 11 * position) % VOCAB for position in range(length)], 30, **kind)
        for number, (length, kind) in enumerate(kinds)
    ]
    answers, num_calls = [], []
    for max_repeat in (1, 4):
        engine = make_engine(CpuBackend(), chunk=64, num_requests=3, num_blocks=24, max_repeat=max_repeat)
        tokens: dict[str, tuple[int, ...]] = {request.request_id: () for request in requests}
        for request in requests:
            engine.add(request)
        calls = 0
        while engine.has_work:
            calls += 1
            for output in engine.step():
                assert output.error is None
                tokens[output.request_id] += output.token_ids
        answers.append(tokens)
        num_calls.append(calls)
    assert answers[0] == answers[1]
    assert num_calls[1] < num_calls[0] / 2


@pytest.mark.parametrize("kv_dtype", ["bfloat16", "float32", "int8"])
@pytest.mark.parametrize("backend", BACKENDS, ids=lambda backend: backend.name)
def test_what_the_cache_holds_gives_what_computing_it_gives(backend: Backend, kv_dtype: str) -> None:
    """Prompts of about one and two blocks, all beginning alike: computed alone, then found whole and in part."""
    text = [(11 * position + 5) % VOCAB for position in range(74)]
    lengths = (1, 31, 32, 33, 45, 63, 64, 65, 74)
    prompts = {str(length): text[:length] for length in lengths} | {
        f"{length}x": [*text[: length - 1], (text[length - 1] + 1) % VOCAB, 3, 1, 2] for length in lengths
    }
    alone: Answer = {}
    requests = [make_request(name, prompt, 6, logprobs=2) for name, prompt in prompts.items()]
    for request in requests:
        engine = make_engine(backend, chunk=128, num_requests=1, num_blocks=4, kv_dtype=kv_dtype)
        alone |= run(engine, [request])
    engine = make_engine(backend, chunk=64, num_requests=6, num_blocks=24, kv_dtype=kv_dtype)
    for request in [*requests, *reversed(requests)]:
        check_same(backend, run(engine, [request]), {request.request_id: alone[request.request_id]})
    assert engine.stats().num_prefix_hits > engine.stats().num_prefix_queries / 2
    together = make_engine(backend, chunk=7, num_requests=6, num_blocks=24, kv_dtype=kv_dtype)
    check_same(backend, run(together, requests), alone)
    assert together.stats().num_prefix_hits > 0


LONG_LEN = 1280
SPLIT_BLOCKS = 512 // BLOCK_SIZE


class Watch(Executor):
    """Counts the steps in which requests that compute one token hold the same first split."""

    def __init__(self, executor: Executor) -> None:
        self.executor = executor
        self.num_shared = 0

    def execute(self, step: SchedulerOutput) -> ModelRunnerOutput:
        first = [part.block_ids[:SPLIT_BLOCKS] for part in step.scheduled if part.num_scheduled_tokens == 1]
        self.num_shared += len(set(first)) < len(first)
        return self.executor.execute(step)

    def close(self) -> None:
        self.executor.close()


@pytest.mark.parametrize("kv_dtype", ["bfloat16", "float32", "int8"])
@pytest.mark.parametrize("model", ["llama_like", "gemma_like"])
def test_prefix_of_several_splits_is_read_once_for_all_and_gives_the_same(model: str, kv_dtype: str) -> None:
    """Attention reads whole splits of 512 tokens together where requests hold the same blocks."""
    text = [(11 * position * position + 5) % VOCAB for position in range(1100)]
    lengths = {"a": 1100, "b": 1024, "c": 1025, "d": 1056, "e": 700, "f": 513}
    requests = [
        make_request(name, [*text[:length], *([ord(name) % VOCAB] * (ord(name) % 3))], 12, logprobs=2)
        for name, length in lengths.items()
    ]

    def make(num_requests: int, *, is_on: bool, num_threads: int = 1) -> EngineLoop:
        return make_engine(
            CpuBackend(),
            chunk=64,
            num_requests=num_requests,
            num_blocks=160,
            kv_dtype=kv_dtype,
            model=model,
            max_model_len=LONG_LEN,
            num_threads=num_threads,
            enable_prefix_caching=is_on,
        )

    alone: Answer = {}
    for request in requests:
        alone |= run(make(1, is_on=False), [request])
    for num_threads in (1, 2):
        engine = make(6, is_on=True, num_threads=num_threads)
        watch = engine._executor = Watch(engine._executor)
        assert run(engine, requests) == alone
        assert watch.num_shared > 5
        assert engine.stats().num_prefix_hits > 3000
        assert run(engine, requests) == alone


def test_preempted_requests_find_what_they_had_and_go_on_the_same() -> None:
    requests = list(make_requests())
    answers, counts = [], []
    for is_on in (False, True):
        engine = make_engine(CpuBackend(), chunk=64, num_requests=6, num_blocks=9, enable_prefix_caching=is_on)
        answers.append(run(engine, requests))
        assert engine.stats().num_preemptions > 0
        counts.append(engine.stats().num_prompt_tokens)
    assert answers[0] == answers[1]
    assert counts[1] < counts[0]
