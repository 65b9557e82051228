"""What a step costs besides its kernels: schedule, gather, update, with an executable that computes nothing.

Invariant: the loop, the scheduler, the request table and the gathering are the engine's own. The cost of a step must
not grow with the number of requests that wait.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence
from typing import final

import numpy as np

from pelton.api.assemble import make_loop_around
from pelton.backends.executable import Bytes, Executable, StepInputs, StepResult
from pelton.bench.record import Row
from pelton.config.schema import CacheConfig, EngineConfig, ModelConfig, RunnerConfig, SchedulerConfig
from pelton.core.sampling_params import SamplingParams
from pelton.core.step import NewRequest, RequestId
from pelton.engine.loop import EngineLoop

VOCAB_SIZE = 150_000
PROMPT_TOKENS = 128
BLOCK_SIZE = 32
WARM_UP_STEPS = 20
RUNNING = (1, 8, 32)
WAITING = (0, 1000)


@final
class NullExecutable(Executable):
    """Chooses token 7 for every row, at once."""

    @property
    def kv_bytes_per_block(self) -> int:
        return 64

    def bind_kv(self, memory: Bytes, num_blocks: int) -> None:
        """Nothing is cached."""

    def copy_block(self, source: int, target: int) -> None:
        """Nothing is cached."""

    def run(self, inputs: StepInputs, *, want_logits: bool = False) -> StepResult:
        """The same token for all."""
        rows = len(inputs.logits_index_S)
        return StepResult(
            token_ids_S=np.full(rows, 7, np.int32),
            logprob_S=np.full(rows, np.nan, np.float32),
            top_ids_SL=np.empty((rows, 0), np.int32),
            top_logprobs_SL=np.empty((rows, 0), np.float32),
        )

    def explain(self) -> list[tuple[str, str, str]]:
        return []


def measure_host_steps(
    *, running: Sequence[int] = RUNNING, waiting: Sequence[int] = WAITING, num_steps: int = 400
) -> Iterator[Row]:
    """The cost of decode steps with so many requests in them, and so many behind them."""
    for num_running in running:
        for num_waiting in waiting:
            times = time_steps(num_running, num_waiting, num_steps)
            yield {
                "what": "engine step",
                "running": num_running,
                "waiting": num_waiting,
                "us": 1e6 * statistics.median(times),
                "best_us": 1e6 * min(times),
            }


def time_steps(num_running: int, num_waiting: int, num_steps: int) -> list[float]:
    """Seconds of each of `num_steps` decode steps."""
    engine = make_null_engine(num_running, WARM_UP_STEPS + num_steps)
    sampling = SamplingParams(temperature=0.0, max_tokens=WARM_UP_STEPS + num_steps + 2, ignore_eos=True)
    for index in range(num_running + num_waiting):
        prompt = tuple((index + position) % VOCAB_SIZE for position in range(PROMPT_TOKENS))
        engine.add(NewRequest(request_id=RequestId(f"r{index}"), prompt_token_ids=prompt, sampling=sampling))
    for _ in range(WARM_UP_STEPS):
        engine.step()
    times = []
    for _ in range(num_steps):
        start_s = time.perf_counter()
        outputs = engine.step()
        times.append(time.perf_counter() - start_s)
        assert len(outputs) == num_running, f"a step of {num_running} requests gave {len(outputs)} tokens"
    stats = engine.stats()
    assert (stats.num_running, stats.num_waiting) == (num_running, num_waiting), "a request ended or came in between"
    engine.close()
    return times


def make_null_engine(max_num_requests: int, num_steps: int) -> EngineLoop:
    """An engine that computes nothing, with room for `max_num_requests`."""
    max_model_len = PROMPT_TOKENS + num_steps + 2 * BLOCK_SIZE
    config = EngineConfig(
        model=ModelConfig(max_model_len=max_model_len),
        cache=CacheConfig(block_size=BLOCK_SIZE, num_blocks=(max_num_requests + 1) * (max_model_len // BLOCK_SIZE + 2)),
        scheduler=SchedulerConfig(
            max_num_requests=max_num_requests,
            max_num_batched_tokens=max(PROMPT_TOKENS * max_num_requests, 512),
            max_prefill_chunk=512,
        ),
        runner=RunnerConfig(num_threads=1),
    )
    return make_loop_around(NullExecutable(), config, VOCAB_SIZE)
