"""Speed of the whole engine without HTTP: scheduler, runner, kernels and sampling, on random token ids.

Two runs are timed per batch size: one that ends after the first token (prefill) and one that goes on (prefill and
decode); decode time is their difference. Greedy, end-of-sequence ignored. Every repeat has fresh prompts.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass

from pelton.core.sampling_params import SamplingParams
from pelton.core.step import NewRequest, RequestId
from pelton.engine.loop import EngineLoop
from pelton.errors import InternalError


@dataclass(frozen=True, slots=True, kw_only=True)
class OfflineSpeed:
    """The best of the repeats, in tokens per second over all requests of the batch."""

    batch: int
    prompt_tokens: int
    output_tokens: int
    prefill_tokens_per_s: float
    decode_tokens_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """`batch` requests of `prompt_tokens` random ids, `output_tokens` decoded after the first."""

    batch: int
    prompt_tokens: int
    output_tokens: int


def measure_offline(
    engine: EngineLoop,
    workload: Workload,
    *,
    repeat: int,
    vocab_size: int,
    on_run: Callable[[], None] = lambda: None,
) -> OfflineSpeed:
    """Time `workload` on `engine`; `on_run` is called after each of the 2 * repeat runs."""
    first: list[float] = []
    whole: list[float] = []
    for run in range(repeat):
        for times, num_tokens in ((first, 1), (whole, workload.output_tokens + 1)):
            times.append(time_run(engine, workload, num_tokens, seed=100 * num_tokens + run, vocab_size=vocab_size))
            on_run()
    prefill_s, decode_s = min(first), max(min(whole) - min(first), 1e-9)
    return OfflineSpeed(
        batch=workload.batch,
        prompt_tokens=workload.prompt_tokens,
        output_tokens=workload.output_tokens,
        prefill_tokens_per_s=workload.batch * workload.prompt_tokens / prefill_s,
        decode_tokens_per_s=workload.batch * workload.output_tokens / decode_s,
    )


def time_run(engine: EngineLoop, workload: Workload, num_tokens: int, *, seed: int, vocab_size: int) -> float:
    """Seconds that the batch takes for `num_tokens` output tokens each."""
    ids = random.Random(seed)
    low, high = min(1000, vocab_size // 2), min(20000, vocab_size - 1)
    sampling = SamplingParams(temperature=0.0, max_tokens=num_tokens, ignore_eos=True)
    requests = [
        NewRequest(
            request_id=RequestId(f"bench-{seed}-{row}"),
            prompt_token_ids=tuple(ids.randint(low, high) for _ in range(workload.prompt_tokens)),
            sampling=sampling,
        )
        for row in range(workload.batch)
    ]
    start = time.perf_counter()
    for output in engine.run(requests):
        if output.finish_reason == "error":
            raise InternalError(f"bench: a request failed: {output.error}", request_id=output.request_id)
    return time.perf_counter() - start
