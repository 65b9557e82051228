"""One engine: a scheduler, an executor and a clock. `step` is schedule, execute, update, and nothing else.

A request that cannot be taken gets an output with finish_reason "error", never silence. If a step raises, every live
request gets one at the next call and the engine is broken from then on: whoever drives the loop starts another.

Belongs to one thread: the main thread of the engine process, a thread of `InProcessClient`, or the caller's own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import final

from pelton.core.messages import EngineFacts, PrefixAnswer, PrefixQuestion
from pelton.core.outputs import EngineStats, RequestOutput, Timings
from pelton.core.step import NewRequest, RequestId, SchedulerOutput
from pelton.engine.executor import Executor
from pelton.engine.prefix_query import answer
from pelton.engine.scheduler import Scheduler
from pelton.engine.step_cost import StepCosts, measure_work
from pelton.errors import RequestError
from pelton.observability import bucket


@final
class EngineLoop:
    """Takes requests, makes steps, gives outputs. `clock` counts seconds and never goes back."""

    def __init__(self, scheduler: Scheduler, executor: Executor, clock: Callable[[], float] = time.monotonic) -> None:
        self.on_step: Callable[[SchedulerOutput], None] = lambda step: None  # before it is computed
        self._scheduler = scheduler
        self._executor = executor
        self._clock = clock
        self._refused: list[RequestOutput] = []
        self._answers: list[PrefixAnswer] = []
        self._last_step_s = 0.0
        self._step_tokens = [0] * (len(bucket.STEP_TOKENS) + 1)
        self._num_step_tokens = 0
        self.num_steps = 0  # each repeat counts
        self.costs = StepCosts()
        self.work = 1  # of the step under way
        self._is_draining = False
        self.broken: str | None = None  # why no further step can be made
        self.step_started_s: float | None = None  # of the step under way; read by a watchdog in another thread

    @property
    def has_work(self) -> bool:
        """Whether `step` would compute something or has outputs to give."""
        return self._scheduler.has_work or self._scheduler.has_outputs or bool(self._refused)

    def add(self, request: NewRequest) -> None:
        """Queue a request. One that cannot be taken ends with an "error" output at the next `step`."""
        if self.broken is not None:
            self._refuse(request, f"The engine has failed: {self.broken}")
        elif self._is_draining:
            self._refuse(request, "The server is shutting down and takes no more requests.")
        else:
            try:
                self._scheduler.add(request, self._clock())
            except RequestError as error:
                self._refuse(request, str(error))

    def abort(self, request_id: RequestId) -> None:
        """End a request with "abort" before the next step. Unknown ids are ignored."""
        self._scheduler.finish(request_id, "abort")

    def ask(self, question: PrefixQuestion) -> None:
        """Do what a question about named prefixes wants; `take_answers` has the answer then."""
        self._answers.append(answer(self._scheduler.cache, question, self._clock()))

    def take_answers(self) -> list[PrefixAnswer]:
        """The answers since the last call."""
        answers, self._answers = self._answers, []
        return answers

    def drain(self) -> None:
        """Refuse requests from here on; those that are live run to their end."""
        self._is_draining = True

    def step(self) -> list[RequestOutput]:
        """Make one step, if there is work, and return all outputs since the last call.

        Raises what the executor raises. The engine is broken then, and the next call returns the requests' errors.
        """
        if self.broken is None and self._scheduler.has_work:
            self.step_started_s = started_s = self._clock()
            repeat, cpu_s = 1, time.process_time()
            try:
                repeat = self._make_step(started_s)
            except BaseException as error:
                self._break(error)
                raise
            finally:
                self._last_step_s = (self._clock() - started_s) / repeat
                self.costs.add(self.work, time.process_time() - cpu_s)
                self.step_started_s = None
                self.num_steps += repeat
        refused, self._refused = self._refused, []
        return refused + self._scheduler.take_outputs()

    def run(self, requests: Iterable[NewRequest]) -> Iterator[RequestOutput]:
        """Run `requests` to their end, yielding outputs as they come. Closing the iterator aborts what is left."""
        request_ids = []
        try:
            for request in requests:
                self.add(request)
                request_ids.append(request.request_id)
            while self.has_work:
                yield from self.step()
        finally:
            for request_id in request_ids:
                self.abort(request_id)
            self._scheduler.take_outputs()
            self._refused = []

    def stats(self) -> EngineStats:
        """The figures of this moment."""
        scheduler = self._scheduler
        return EngineStats(
            num_running=scheduler.num_running,
            num_waiting=scheduler.num_waiting,
            num_blocks=scheduler.pool.num_blocks,
            num_free_blocks=scheduler.pool.num_free,
            num_steps=self.num_steps,
            num_preemptions=scheduler.num_preemptions,
            num_prompt_tokens=scheduler.num_prompt_tokens,
            num_generation_tokens=scheduler.num_generation_tokens,
            num_prefix_queries=scheduler.num_prefix_queries,
            num_prefix_hits=scheduler.num_prefix_hits,
            num_step_tokens=self._num_step_tokens,
            step_tokens=tuple(self._step_tokens),
            num_waiting_tokens=scheduler.num_waiting_tokens,
            prompt_tokens_per_s=scheduler.pace.prompt_tokens_per_s,
            decode_tokens_per_s=scheduler.pace.estimate_decode_tokens_per_s(scheduler.num_running),
            last_step_s=self._last_step_s,
            is_busy=scheduler.has_work,
        )

    def make_facts(self, details: dict[str, str] | None = None) -> EngineFacts:
        """What the other side needs to know to check a request before it sends it."""
        limits, pool = self._scheduler.limits, self._scheduler.pool
        return EngineFacts(
            max_model_len=limits.max_model_len,
            max_num_requests=limits.max_num_requests,
            max_num_batched_tokens=limits.max_num_batched_tokens,
            max_prefill_chunk=limits.max_prefill_chunk,
            vocab_size=limits.vocab_size,
            block_size=pool.block_size,
            num_blocks=pool.num_blocks,
            details=details or {},
        )

    def abort_all(self) -> None:
        """End every live request with "abort" before the next step."""
        self._scheduler.finish_all("abort")

    def close(self) -> None:
        """Give the executor's memory and threads back."""
        self._executor.close()

    def _make_step(self, started_s: float) -> int:
        step: SchedulerOutput = self._scheduler.schedule(started_s)
        self.work = measure_work(step.scheduled, step.repeat)
        self.on_step(step)
        result = self._executor.execute(step)
        self._scheduler.update(step, result, self._clock())
        num_tokens = sum(part.num_scheduled_tokens for part in step.scheduled)
        bucket.count_into(self._step_tokens, bucket.STEP_TOKENS, num_tokens, step.repeat)
        self._num_step_tokens += num_tokens * step.repeat  # what is repeated are single tokens
        if not self._scheduler.has_work:
            self._scheduler.check()
        return step.repeat

    def _break(self, error: BaseException) -> None:
        """End every live request: a step that was cut short leaves the cache in a state nobody knows."""
        self.broken = f"{type(error).__name__} in step {self.num_steps}: {error}"
        error_text = f"The engine failed while this request ran: {self.broken}"
        self._scheduler.finish_all("error", error=error_text)

    def _refuse(self, request: NewRequest, error: str) -> None:
        timings = Timings(arrival_s=request.arrival_s or self._clock())
        self._refused.append(
            RequestOutput(request_id=request.request_id, finish_reason="error", error=error, timings=timings)
        )
