"""Runs a step: rows in and out of the request table, inputs gathered, the executable called, tokens written back.

Runs on the engine's thread and blocks until the step is done; the executable releases the GIL. What is paid here is
paid by every token of every request, so nothing loops over tokens in Python.
"""

from __future__ import annotations

from typing import final

from pelton.backends.executable import Executable, Limits, StepResult
from pelton.core.step import ModelRunnerOutput, RequestId, SampledToken, SchedulerOutput, TokenLogprobs
from pelton.engine.executor import Executor
from pelton.runner.kv_pool import KvPool
from pelton.runner.request_table import RequestTable
from pelton.runner.step_inputs import make_step_inputs


@final
class ModelRunner(Executor):
    """An executor over one executable in this process. `kv_pool` is bound to it here."""

    def __init__(
        self,
        executable: Executable,
        limits: Limits,
        kv_pool: KvPool,
        *,
        max_model_len: int,
        vocab_size: int,
        server_seed: int = 0,
    ) -> None:
        self._executable: Executable | None = executable
        self._kv_pool: KvPool | None = kv_pool
        executable.bind_kv(kv_pool.memory, kv_pool.num_blocks)
        self._table = RequestTable(
            limits.max_num_requests,
            max_model_len,
            limits.max_blocks_per_request,
            vocab_size,
            server_seed=server_seed,
        )

    def execute(self, step: SchedulerOutput) -> ModelRunnerOutput:
        """Compute one step and sample. Blocks until it is done."""
        assert self._executable is not None, "a closed runner was asked for a step"
        for request_id in step.finished:
            self._table.remove(request_id)
        for copy in step.copies:
            self._executable.copy_block(copy.source, copy.target)
        for new in step.added:
            self._table.add(new)
        if not step.scheduled:
            return ModelRunnerOutput(step=step.step)
        gathered = make_step_inputs(self._table, step.scheduled, step.repeat)
        result = self._executable.run(gathered.inputs)
        self._table.append(gathered.rows_S, result.token_ids_S)
        request_ids = [step.scheduled[index].request_id for index in gathered.request_index_S.tolist()]
        num_logprobs = gathered.inputs.sampling.num_logprobs_S.tolist()
        sampled = make_sampled(request_ids, num_logprobs, result)
        for token_ids_S in () if result.later_ids_KS is None else result.later_ids_KS:
            self._table.append(gathered.rows_S, token_ids_S)
            sampled += tuple(map(SampledToken, request_ids, token_ids_S.tolist()))
        return ModelRunnerOutput(step=step.step, sampled=sampled)

    def close(self) -> None:
        """Let go of the executable and the cache."""
        self._executable = None
        self._kv_pool = None


def make_sampled(request_ids: list[RequestId], num_logprobs: list[int], result: StepResult) -> tuple[SampledToken, ...]:
    """The chosen tokens, with log-probabilities where they were asked for."""
    token_ids = result.token_ids_S.tolist()
    if max(num_logprobs, default=-1) < 0:
        return tuple(map(SampledToken, request_ids, token_ids))
    return tuple(
        SampledToken(request_id, token_id, make_logprobs(result, index, num) if num >= 0 and token_id >= 0 else None)
        for index, (request_id, token_id, num) in enumerate(zip(request_ids, token_ids, num_logprobs, strict=True))
    )


def make_logprobs(result: StepResult, index: int, num_logprobs: int) -> TokenLogprobs:
    """Row `index`'s log-probabilities: of the chosen token and of the `num_logprobs` most likely."""
    return TokenLogprobs(
        chosen=float(result.logprob_S[index]),
        top_token_ids=tuple(result.top_ids_SL[index, :num_logprobs].tolist()),
        top_logprobs=tuple(result.top_logprobs_SL[index, :num_logprobs].tolist()),
    )
