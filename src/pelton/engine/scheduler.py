"""Which tokens of which requests the next step computes, and where their keys and values live.

There are no phases: a request has tokens not computed yet, a step computes some within one token budget. Running
requests come first, by class and arrival, then waiting ones (waiting.py), at a pace (pace.py). Memory is promised
before it is used: a request starts with blocks for all its known tokens, and when a running one needs another and none
is free, the one that loses least gives way (victim.py) and computes its tokens again later. What the cache holds is not
computed again; what another request computes just now is waited for, outside the queue.
Progress: the first running request never gives way. Others do at most MAX_PREEMPTIONS times; then they wait until their
blocks up to their very last token are free. What could not run alone on an empty pool is refused when it comes.
Runs on the engine's only thread, O(running requests) per step. Knows no tensors, no clock, no model.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable
from operator import attrgetter
from typing import final

from pelton.core.outputs import FinishReason, RequestOutput
from pelton.core.step import BlockCopy, ModelRunnerOutput, NewRequest, RequestId, SampledToken, SchedulerOutput
from pelton.engine.deadline import Deadlines
from pelton.engine.limits import SchedulerLimits, check_request, get_length_limit
from pelton.engine.pace import Pace
from pelton.engine.parking import Parking
from pelton.engine.repeat import choose_repeat, extend_for_repeat
from pelton.engine.request import Request, State
from pelton.engine.victim import MAX_PREEMPTIONS, choose_victim
from pelton.engine.waiting import OUTPUT_WEIGHT, WaitingQueue
from pelton.errors import DeadlineExceeded, InternalError, RequestError
from pelton.kvcache.block_cache import BlockCache
from pelton.kvcache.block_pool import BlockPool
from pelton.kvcache.prefix_tree import rank_of

_get_order: Callable[[Request], tuple[int, int]] = attrgetter("order")


@final
class Scheduler:
    """Call `schedule`, run what it says, give the answer to `update`; between steps `add` and `finish` at will."""

    def __init__(self, limits: SchedulerLimits, pool: BlockPool) -> None:
        self.limits = limits
        self.pool = pool
        self.cache = BlockCache(pool, is_enabled=limits.enable_prefix_caching)
        self.num_steps = 0
        self.num_preemptions = 0
        self.num_prompt_tokens = 0
        self.num_generation_tokens = 0
        self.num_prefix_queries = 0  # tokens that were looked for in the cache, and found there
        self.num_prefix_hits = 0
        self._num_added = 0
        self._live: dict[RequestId, Request] = {}
        self.pace = Pace(limits.target_itl_s)
        self._deadlines = Deadlines()
        self._running: list[Request] = []  # sorted by `order`
        self._waiting = WaitingQueue()
        self._parking = Parking(self.cache.tree)
        self._rows_to_free: list[RequestId] = []
        self._outputs: list[RequestOutput] = []
        self._started_s = 0.0  # the last step
        self._step_s = 0.0  # what it took, without its repeats
        self._num_decoding = 0  # requests of the last step that extended themselves

    @property
    def num_running(self) -> int:
        """Requests that hold blocks."""
        return len(self._running)

    @property
    def num_waiting(self) -> int:
        """Requests that hold none."""
        return len(self._waiting) + len(self._parking)

    @property
    def num_waiting_tokens(self) -> int:
        """Tokens of the requests in the queue."""
        return self._waiting.num_tokens

    @property
    def has_work(self) -> bool:
        """Whether a step would compute anything."""
        return bool(self._live)

    @property
    def has_outputs(self) -> bool:
        """Whether `take_outputs` would return any."""
        return bool(self._outputs)

    def add(self, new: NewRequest, now_s: float = 0.0) -> None:
        """Queue a request. Raises RequestError (TooLong) if it can never run; then nothing has changed."""
        if new.request_id in self._live:
            raise RequestError(f"request id {new.request_id!r} is in use. Give every live request an id of its own.")
        check_request(new, self.limits, self.pool.num_tokens)
        length_limit = get_length_limit(new, self.limits, self.pool.num_tokens)
        request = Request(new, self._num_added, length_limit, new.arrival_s or now_s)
        self._num_added += 1
        self._live[new.request_id] = request
        self._deadlines.add(new)
        self._waiting.enter(new.tenant)
        self._waiting.add(request)
        reason = request.compute_finish_reason()
        if reason is not None:  # it was resumed after its last token
            self.finish(request.request_id, reason)

    def finish(
        self,
        request_id: RequestId,
        reason: FinishReason,
        sampled: SampledToken | None = None,
        *,
        error: str | None = None,
        error_class: str = "",
    ) -> None:
        """End a request, once: free what it holds and emit its last output. Nothing else frees.

        Ids that are unknown or have ended are ignored, so whoever comes first decides the reason.
        """
        request = self._live.pop(request_id, None)
        if request is None:
            return
        if request.state is State.RUNNING:
            self._release(request, is_sound=reason != "error" or error_class == DeadlineExceeded.__name__)
        elif request.waits_for is not None:
            self._parking.leave(request)
        else:
            self._waiting.remove(request)
        request.state = State.DONE
        self._waiting.leave(request.new.tenant)
        self._outputs.append(request.make_output(sampled, reason, error, error_class))

    def finish_all(self, reason: FinishReason, *, error: str | None = None) -> None:
        """End every live request."""
        for request_id in list(self._live):
            self.finish(request_id, reason, error=error)

    def schedule(self, now_s: float = 0.0) -> SchedulerOutput:
        """Decide the next step. `scheduled` is empty only if there is no work."""
        added: list[NewRequest] = []
        copies: list[BlockCopy] = []
        self.cache.names.expire(now_s)
        self._end_late(now_s)
        for request in self._parking.take_ready(self._live):
            self._waiting.add(request)
        self._num_decoding = sum(request.num_uncomputed_tokens == 1 for request in self._running)
        num_could_join = min(self.num_waiting, self.limits.max_num_requests - self._num_decoding)
        num_prompt_tokens = self.pace.choose(self._num_decoding, num_could_join)
        plan = self._continue_running(num_prompt_tokens)
        # What the pace leaves: requests that decode and were preempted in this step count as room for prompts.
        self._admit_waiting(plan, added, copies, now_s, num_prompt_tokens + self._num_decoding)
        repeat = 1 if added or self.num_waiting else self._repeat(plan)
        self._started_s = now_s
        if self._live and not plan:
            raise InternalError(
                f"scheduler: {len(self._live)} live requests and none can be computed. Please report this.",
                step=self.num_steps,
            )
        finished, self._rows_to_free = tuple(self._rows_to_free), []
        step = self.num_steps
        self.num_steps += 1
        scheduled = tuple(
            self._live[request_id].make_part(num_scheduled_tokens) for request_id, num_scheduled_tokens in plan.items()
        )
        return SchedulerOutput(
            step=step,
            added=tuple(added),
            finished=finished,
            copies=tuple(copies),
            scheduled=scheduled,
            repeat=repeat,
        )

    def update(self, step: SchedulerOutput, result: ModelRunnerOutput, now_s: float = 0.0) -> None:
        """Take in what a step computed and chose. Requests that ended in the meantime are skipped."""
        self._step_s = (now_s - self._started_s) / step.repeat
        num_tokens = sum(part.num_scheduled_tokens for part in step.scheduled)
        num_decoding = min(self._num_decoding, num_tokens)  # some may have been preempted
        self.pace.learn(num_decoding, num_tokens - num_decoding, self._step_s)
        for part in step.scheduled:
            request = self._live.get(part.request_id)
            if request is not None:
                end = part.num_computed_tokens + part.num_scheduled_tokens
                self.num_prompt_tokens += max(0, min(end, request.num_prompt_tokens) - part.num_computed_tokens)
                request.num_computed_tokens = end + step.repeat - 1
        for sampled in result.sampled:
            request = self._live.get(sampled.request_id)
            if request is not None:
                self._append(request, sampled, now_s)
        for part in step.scheduled:
            request = self._live.get(part.request_id)
            if request is not None and request.num_uncomputed_tokens <= 0:
                error = "The model chose no token for this request. Please report this."
                self.finish(request.request_id, "error", error=error)
            elif request is not None and request.lease is not None:
                self.cache.publish(request.lease, request.tokens, request.num_computed_tokens)

    def take_outputs(self) -> list[RequestOutput]:
        """The outputs since the last call, in the order they came about."""
        outputs, self._outputs = self._outputs, []
        return outputs

    def _end_late(self, now_s: float) -> None:
        """End those whose deadline has passed, wherever they are."""
        for deadline_s, request_id in self._deadlines.take_passed(now_s):
            request = self._live.get(request_id)
            if request is not None and request.new.deadline_s == deadline_s:
                where = "while it waited" if request.state is State.WAITING else "while it was computed"
                error = f"The request's deadline passed {where}, after {now_s - request.arrival_s:.1f} s."
                self.finish(request_id, "error", error=error, error_class=DeadlineExceeded.__name__)

    def _continue_running(self, num_prompt_tokens: int) -> dict[RequestId, int]:
        """Tokens to compute for each running request that gets any, `num_prompt_tokens` of prompts. May preempt."""
        plan: dict[RequestId, int] = {}
        budget = self.limits.max_num_batched_tokens
        # A long chunk leaves a token for each request behind it that needs just one, so nobody's stream pauses.
        reserved = sum(request.num_uncomputed_tokens == 1 for request in self._running)
        for request in list(self._running):
            if request.state is not State.RUNNING:
                continue  # preempted by one before it
            is_decoding = request.num_uncomputed_tokens == 1
            reserved -= is_decoding
            room = budget if is_decoding else min(budget - reserved, num_prompt_tokens)
            chunk = min(request.num_uncomputed_tokens, self.limits.max_prefill_chunk, room)
            if chunk > 0 and self._make_room(request, request.num_computed_tokens + chunk, plan):
                plan[request.request_id] = chunk
                budget -= chunk
                num_prompt_tokens -= 0 if is_decoding else chunk
        return plan

    def _repeat(self, plan: dict[RequestId, int]) -> int:
        """How often to run a step of only `plan`. Its requests then hold blocks for that."""
        if len(plan) < len(self._running):
            return 1
        requests = [self._live[request_id] for request_id in plan]
        return extend_for_repeat(requests, self.cache, choose_repeat(requests, self.limits.max_repeat, self._step_s))

    def _make_room(self, request: Request, num_tokens: int, plan: dict[RequestId, int]) -> bool:
        """Whether `request` holds blocks for `num_tokens`. Preempts others for it, or the request itself."""
        num_missing = self.pool.get_num_blocks_for(num_tokens) - len(request.block_ids)
        if num_missing <= 0:
            return True
        while self.pool.num_free < num_missing:
            victim = choose_victim(self._running)
            if victim is None:  # the others are promised all they need; this one goes on when they have ended
                is_alone = len(self._running) == 1
                if is_alone and self.cache.names.give_way(num_missing):
                    break
                return False
            plan.pop(victim.request_id, None)
            self._preempt(victim)
            if victim is request:
                return False
        assert request.lease is not None, "a request runs and holds nothing"
        self.cache.extend(request.lease, num_missing)
        return True

    def _preempt(self, request: Request) -> None:
        self._release(request)
        request.state = State.WAITING
        request.num_preemptions += 1
        self.num_preemptions += 1
        self._waiting.add(request)

    def _release(self, request: Request, *, is_sound: bool = True) -> None:
        """Take memory and row from a running request. The cache keeps what is sound."""
        index = bisect_left(self._running, request.order, key=_get_order)
        assert self._running[index] is request, "a running request is not where it belongs"
        del self._running[index]
        assert request.lease is not None, "a request runs and holds nothing"
        if is_sound:
            num_computed = min(request.num_computed_tokens, request.num_tokens)  # less, if it was stopped in a repeat
            self.cache.publish(request.lease, request.tokens, num_computed)
        self.cache.release(request.lease, is_sound=is_sound)
        request.lease = None
        request.num_computed_tokens = 0
        self._rows_to_free.append(request.request_id)

    def _admit_waiting(
        self, plan: dict[RequestId, int], added: list[NewRequest], copies: list[BlockCopy], now_s: float, most: int
    ) -> None:
        """Start waiting requests, in order, while memory for all their tokens is there, up to `most` in the step."""
        budget = min(self.limits.max_num_batched_tokens, most) - sum(plan.values())
        while budget > 0 and len(self._running) < self.limits.max_num_requests:
            barred = self._waiting.find_barred(self._running, self.limits.max_num_requests)
            request = self._waiting.first(now_s, barred)
            if request is None:
                return
            match = self.cache.find(request.salt, request.tokens, rank_of(request.new.priority))
            if match.promised is not None:
                self._waiting.remove(request)
                self._parking.park(request, match.promised)
                continue
            num_blocks = self.pool.get_num_blocks_for(self._get_num_promised_tokens(request))
            # One block per running request stays free, or the next steps would preempt what this one admits.
            num_needed = self.cache.count_needed(match, num_blocks) + len(self._running)
            if num_needed > self.pool.num_free:
                if self._running or not self.cache.names.give_way(num_needed):
                    return
                continue  # with nobody to wait for, named prefixes are given up for it
            self._waiting.remove(request)
            if not request.first_scheduled_s:
                self.num_prefix_queries += request.num_tokens
                self.num_prefix_hits += self.cache.count_found(match)
                self._waiting.charge(request.new.tenant, request.num_tokens - self.cache.count_found(match))
            copies += request.start(self.cache, match, num_blocks, now_s)
            insort(self._running, request, key=_get_order)
            added.append(request.make_resumed())
            chunk = min(request.num_uncomputed_tokens, self.limits.max_prefill_chunk, budget)
            plan[request.request_id] = chunk
            budget -= chunk

    def _get_num_promised_tokens(self, request: Request) -> int:
        return request.num_tokens if request.num_preemptions < MAX_PREEMPTIONS else request.length_limit

    def _append(self, request: Request, sampled: SampledToken, now_s: float) -> None:
        """Add an output token, and finish the request if it was the last."""
        if not 0 <= sampled.token_id < self.limits.vocab_size:
            error = "The model's logits for this request are not numbers, so no token could be chosen."
            self.finish(request.request_id, "error", error=error)
            return
        request.append(sampled.token_id)
        self._waiting.charge(request.new.tenant, OUTPUT_WEIGHT)
        self.num_generation_tokens += 1
        request.first_token_s = request.first_token_s or now_s
        request.last_token_s = now_s
        reason = request.compute_finish_reason()
        if reason is not None:
            self.finish(request.request_id, reason, sampled)
        else:
            self._outputs.append(request.make_output(sampled))

    def check(self) -> None:
        """Raise AssertionError if requests, queues and blocks contradict each other. Cheap; run when idle."""
        self.cache.check(request.lease for request in self._running if request.lease is not None)
        self._parking.check(self._live.values())
        assert len(self._running) + self.num_waiting == len(self._live), "a request is in no queue, or in two"
        assert len(self._running) <= self.limits.max_num_requests, "more requests run than may"
        assert self._running == sorted(self._running, key=_get_order), "the running requests are out of order"
        self._waiting.check()
        for queue, state in ((self._running, State.RUNNING), (self._waiting, State.WAITING)):
            for request in queue:
                assert self._live[request.request_id] is request, "a queue holds a request that ended"
                assert request.state is state, "a request is in the wrong queue"
                room = len(request.block_ids) * self.pool.block_size
                assert request.num_computed_tokens <= min(room, request.num_tokens), "tokens without a block"
                assert request.num_preemptions <= MAX_PREEMPTIONS, "a request was preempted too often"
