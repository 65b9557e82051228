"""Speed of the whole engine without HTTP: scheduler, runner, kernels and sampling, on random token ids.

Two runs are timed per batch size: one that ends after the first token (prefill) and one that goes on (prefill and
decode); decode time is their difference. At a depth, requests first get that many tokens of context, which is not
timed; then the steps count in which all of them decode. Greedy, end-of-sequence ignored, fresh prompts every time.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

from pelton.core.sampling_params import SamplingParams
from pelton.core.step import NewRequest, RequestId
from pelton.engine.loop import EngineLoop
from pelton.errors import ConfigError, InternalError


@dataclass(frozen=True, slots=True, kw_only=True)
class OfflineSpeed:
    """The best of the repeats, in tokens per second over all requests of the batch."""

    batch: int
    prompt_tokens: int
    output_tokens: int
    depth: int
    shared_prefix: int
    prefill_tokens_per_s: float | None  # None at a depth
    decode_tokens_per_s: float
    decode_step_ms: float | None  # median of the steps in which all requests decode; None: there are none


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """`batch` requests of `prompt_tokens` random ids, `output_tokens` decoded after the first.

    With a depth the prompts are that long instead, and their prefill is not timed.
    """

    batch: int
    prompt_tokens: int
    output_tokens: int
    depth: int = 0
    shared_prefix: int = 0  # leading tokens that all prompts have in common

    @property
    def num_context_tokens(self) -> int:
        """Tokens of each prompt."""
        return self.depth or self.prompt_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run of a batch to its end. Steps are those in which every request got a token after its first."""

    total_s: float
    step_s: tuple[float, ...]


def measure_offline(
    engine: EngineLoop,
    workload: Workload,
    *,
    repeat: int,
    vocab_size: int,
    on_run: Callable[[], None] = lambda: None,
) -> OfflineSpeed:
    """Time `workload` on `engine`; `on_run` is called after each of the `count_runs` runs."""
    prefill_s, decode_s, step_s = (measure_depth if workload.depth else measure_difference)(
        engine, workload, repeat=repeat, vocab_size=vocab_size, on_run=on_run
    )
    return OfflineSpeed(
        batch=workload.batch,
        prompt_tokens=workload.num_context_tokens,
        output_tokens=workload.output_tokens,
        depth=workload.depth,
        shared_prefix=workload.shared_prefix,
        prefill_tokens_per_s=None if prefill_s is None else workload.batch * workload.prompt_tokens / prefill_s,
        decode_tokens_per_s=workload.batch * workload.output_tokens / decode_s,
        decode_step_ms=1000 * statistics.median(step_s) if step_s else None,
    )


def count_runs(workload: Workload, repeat: int) -> int:
    """How often `on_run` will be called."""
    return repeat if workload.depth else 2 * repeat


def measure_difference(
    engine: EngineLoop, workload: Workload, *, repeat: int, vocab_size: int, on_run: Callable[[], None]
) -> tuple[float | None, float, list[float]]:
    """Seconds of prefill, seconds of decode, and the steps: from runs with one token and runs with all."""
    first: list[float] = []
    whole: list[float] = []
    step_s: list[float] = []
    for index in range(repeat):
        for times, num_tokens in ((first, 1), (whole, workload.output_tokens + 1)):
            seed = 100 * num_tokens + index
            run = make_run(engine, workload, num_tokens, seed=seed, vocab_size=vocab_size)
            times.append(run.total_s)
            step_s += run.step_s
            on_run()
    return min(first), max(min(whole) - min(first), 1e-9), step_s


def measure_depth(
    engine: EngineLoop, workload: Workload, *, repeat: int, vocab_size: int, on_run: Callable[[], None]
) -> tuple[float | None, float, list[float]]:
    """None for prefill, the least seconds that all steps of a run took, and the steps of all runs."""
    decode_s: list[float] = []
    step_s: list[float] = []
    num_tokens = compute_num_tokens(engine, workload)
    for index in range(repeat):
        seed = 100 * num_tokens + index
        run = make_run(engine, workload, num_tokens, seed=seed, vocab_size=vocab_size)
        counted = run.step_s[: workload.output_tokens]
        assert len(counted) == workload.output_tokens, "a request ended before all had decoded what is measured"
        decode_s.append(sum(counted))
        step_s += counted
        on_run()
    return None, min(decode_s), step_s


def compute_num_tokens(engine: EngineLoop, workload: Workload) -> int:
    """Output tokens of each request such that all of them decode together for as many steps as are measured.

    Requests whose prompts were computed early decode while others are prefilled; they get tokens to spare for that.
    Raises ConfigError if the batch does not fit into memory.
    """
    facts = engine.make_facts()
    spare = -(-workload.batch * workload.num_context_tokens // facts.max_num_batched_tokens) + workload.batch
    num_tokens = workload.output_tokens + 1 + spare
    check_fits(workload, num_tokens, facts.num_blocks * facts.block_size, facts.max_model_len)
    return num_tokens


def check_fits(workload: Workload, num_tokens: int, num_pool_tokens: int, max_model_len: int) -> None:
    """Raise ConfigError if the batch cannot all be in memory at once: waiting and preemption would be measured."""
    longest = workload.num_context_tokens + num_tokens
    if longest > max_model_len:
        raise ConfigError(
            f"bench: {workload.num_context_tokens} tokens of context and {num_tokens} to decode are more than "
            f"max_model_len={max_model_len}. Lower --depth or --prompt, or raise --max-model-len."
        )
    if workload.batch * longest > num_pool_tokens:
        raise ConfigError(
            f"bench: {workload.batch} requests of {longest} tokens do not fit into a KV cache of "
            f"{num_pool_tokens}. Lower --batch, --depth or --prompt, or raise --kv-cache-memory-bytes."
        )


def make_run(
    engine: EngineLoop,
    workload: Workload,
    num_tokens: int,
    *,
    seed: int,
    vocab_size: int,
    on_decode: Callable[[], None] = lambda: None,
    on_first_end: Callable[[], None] = lambda: None,
) -> Run:
    """Run the batch for `num_tokens` output tokens each.

    `on_decode` is called when all have their first token, `on_first_end` after the last step in which all decode.
    """
    requests = make_requests(workload, num_tokens, seed=seed, vocab_size=vocab_size)
    waiting = {request.request_id for request in requests}  # for their first token
    num_done = 0
    step_s: list[float] = []
    start_s = time.perf_counter()
    for request in requests:
        engine.add(request)
    while engine.has_work:
        all_decode = not waiting and num_done == 0
        num_steps = engine.num_steps
        step_start_s = time.perf_counter()
        for output in engine.step():
            if output.finish_reason == "error":
                engine.abort_all()
                raise InternalError(f"bench: a request failed: {output.error}", request_id=output.request_id)
            waiting.discard(output.request_id)
            num_done += output.finish_reason is not None
        if all_decode:
            call_s = time.perf_counter() - step_start_s
            repeat = engine.num_steps - num_steps
            step_s += [call_s / repeat] * repeat
            if num_done > 0:
                on_first_end()
        elif not waiting and num_done == 0:
            on_decode()
    return Run(total_s=time.perf_counter() - start_s, step_s=tuple(step_s))


def make_requests(workload: Workload, num_tokens: int, *, seed: int, vocab_size: int) -> list[NewRequest]:
    """The requests of a run; equal seeds give equal ones."""
    ids = random.Random(seed)
    low, high = min(1000, vocab_size // 2), min(20000, vocab_size - 1)
    sampling = SamplingParams(temperature=0.0, max_tokens=num_tokens, ignore_eos=True)

    def make_ids(count: int) -> tuple[int, ...]:
        return tuple(ids.randint(low, high) for _ in range(count))

    prefix = make_ids(workload.shared_prefix)
    return [
        NewRequest(
            request_id=RequestId(f"bench-{seed}-{row}"),
            prompt_token_ids=prefix + make_ids(workload.num_context_tokens - workload.shared_prefix),
            sampling=sampling,
        )
        for row in range(workload.batch)
    ]
