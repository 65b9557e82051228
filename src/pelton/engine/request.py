"""A request while it lives in the scheduler: what is known, what is computed, which blocks it holds.

A request has tokens that are known (prompt and outputs) and tokens that are computed (their keys and values are in
its blocks); a step computes some of the rest. That is all the scheduler looks at: there is no prefill and no decode.
Only the scheduler changes a request.
"""

from __future__ import annotations

from array import array
from enum import Enum
from typing import final

import msgspec

from pelton.core.outputs import CacheMiss, FinishReason, RequestOutput, Timings
from pelton.core.step import BlockCopy, BlockId, NewRequest, SampledToken, ScheduledRequest
from pelton.kvcache.block_cache import BlockCache, Lease
from pelton.kvcache.prefix_tree import Match, Node, Salt, rank_of
from pelton.sampling.rule import is_uniform


class State(Enum):
    """Where a request is. DONE is entered once and never left."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"


@final
class Request:
    """The scheduler's record of one request."""

    __slots__ = (
        "arrival_s",
        "cache_miss",
        "can_repeat",
        "first_scheduled_s",
        "first_token_s",
        "last_token_s",
        "lease",
        "length_limit",
        "new",
        "num_cached_tokens",
        "num_computed_tokens",
        "num_preemptions",
        "order",
        "output_token_ids",
        "request_id",
        "state",
        "stop_token_ids",
        "tokens",
        "waits_for",
    )

    def __init__(self, new: NewRequest, sequence: int, length_limit: int, arrival_s: float) -> None:
        self.new = new
        self.request_id = new.request_id
        self.order = (new.priority, sequence)  # a lower priority value comes first, then whoever came first
        self.length_limit = length_limit
        self.output_token_ids = list(new.output_token_ids)
        eos_token_ids = () if new.sampling.ignore_eos else new.eos_token_ids
        self.can_repeat = is_uniform(new.sampling)
        self.stop_token_ids = frozenset((*eos_token_ids, *new.sampling.stop_token_ids))
        self.state = State.WAITING
        self.num_computed_tokens = 0
        self.tokens = array("i", (*new.prompt_token_ids, *new.output_token_ids))
        self.lease: Lease | None = None  # the blocks it holds, while it runs
        self.waits_for: Node | None = None  # a block that somebody computes just now and that it begins with too
        self.num_cached_tokens = 0  # of the prompt, when it first ran
        self.cache_miss: CacheMiss | None = None  # if it asked why it had to be computed
        self.num_preemptions = 0
        self.arrival_s = arrival_s
        self.first_scheduled_s = 0.0
        self.first_token_s = 0.0
        self.last_token_s = 0.0

    @property
    def block_ids(self) -> tuple[BlockId, ...]:
        """The blocks it holds, oldest first."""
        return () if self.lease is None else self.lease.block_ids

    @property
    def salt(self) -> Salt:
        """Whom it shares what it computes with."""
        return Salt(self.new.tenant, self.new.cache_salt)

    @property
    def num_prompt_tokens(self) -> int:
        """Tokens of the prompt."""
        return len(self.new.prompt_token_ids)

    @property
    def num_tokens(self) -> int:
        """Known tokens: the prompt and the outputs so far."""
        return len(self.tokens)

    @property
    def num_uncomputed_tokens(self) -> int:
        """Known tokens whose keys and values are not in the cache. One, once the request only extends itself."""
        return self.num_tokens - self.num_computed_tokens

    def append(self, token_id: int) -> None:
        """Add an output token."""
        self.output_token_ids.append(token_id)
        self.tokens.append(token_id)

    def compute_finish_reason(self) -> FinishReason | None:
        """Why the request ends with its last output, or None. Stop tokens do not count before min_tokens."""
        if not self.output_token_ids:
            return None
        is_stop = self.output_token_ids[-1] in self.stop_token_ids
        if is_stop and len(self.output_token_ids) > self.new.sampling.min_tokens:
            return "stop"
        return "length" if self.num_tokens >= self.length_limit else None

    def make_resumed(self) -> NewRequest:
        """The request as the runner must see it: with the outputs it already has."""
        if len(self.output_token_ids) == len(self.new.output_token_ids):
            return self.new
        return msgspec.structs.replace(self.new, output_token_ids=tuple(self.output_token_ids))

    def make_output(
        self,
        sampled: SampledToken | None,
        reason: FinishReason | None = None,
        error: str | None = None,
        error_class: str = "",
    ) -> RequestOutput:
        """What is told of the token that was just appended, or of the end."""
        return RequestOutput(
            request_id=self.request_id,
            token_ids=() if sampled is None else (sampled.token_id,),
            logprobs=() if sampled is None or sampled.logprobs is None else (sampled.logprobs,),
            finish_reason=reason,
            stop_token_id=sampled.token_id if reason == "stop" and sampled is not None else None,
            error=error,
            error_class=error_class,
            num_cached_tokens=self.num_cached_tokens,
            cache_miss=self.cache_miss,
            timings=self.make_timings(),
        )

    def start(self, cache: BlockCache, match: Match, num_blocks: int, now_s: float) -> tuple[BlockCopy, ...]:
        """Run, with what the cache holds of it and blocks for the rest. The copies must be made before the step."""
        self.num_computed_tokens = cache.count_found(match)
        if not self.first_scheduled_s:
            self.num_cached_tokens = min(self.num_computed_tokens, self.num_prompt_tokens)
            self.cache_miss = cache.explain(match) if self.new.explain_cache else None
            self.first_scheduled_s = now_s
        self.lease, copy = cache.take(match, num_blocks, rank_of(self.new.priority))
        cache.promise(self.lease, self.tokens)
        self.state = State.RUNNING
        return () if copy is None else (copy,)

    def make_part(self, num_scheduled_tokens: int) -> ScheduledRequest:
        """The request's part of a step that computes so many of its tokens."""
        return ScheduledRequest(
            request_id=self.request_id,
            num_computed_tokens=self.num_computed_tokens,
            num_scheduled_tokens=num_scheduled_tokens,
            block_ids=self.block_ids,
        )

    def make_timings(self) -> Timings:
        """The times that are known so far."""
        return Timings(
            arrival_s=self.arrival_s,
            first_scheduled_s=self.first_scheduled_s,
            first_token_s=self.first_token_s,
            last_token_s=self.last_token_s,
            num_preemptions=self.num_preemptions,
        )
