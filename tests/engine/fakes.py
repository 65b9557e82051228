"""Executors without a model. Their next token is a hash of all tokens read back through the block table, so a wrong
slot, a block given to two requests or a token computed twice at different places changes the output."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

from pelton.core.sampling_params import SamplingParams
from pelton.core.step import (
    ModelRunnerOutput,
    NewRequest,
    RequestId,
    SampledToken,
    ScheduledRequest,
    SchedulerOutput,
)
from pelton.engine.executor import Executor
from pelton.engine.limits import SchedulerLimits
from pelton.engine.loop import EngineLoop
from pelton.engine.scheduler import Scheduler
from pelton.kvcache.block_pool import BlockPool

VOCAB_SIZE = 1000


def compute_next_token(token_ids: Sequence[int]) -> int:
    """The model: a hash of everything before."""
    return zlib.crc32(b",".join(b"%d" % token_id for token_id in token_ids)) % VOCAB_SIZE


def compute_continuation(prompt_token_ids: Sequence[int], num_tokens: int) -> list[int]:
    """What the model says after a prompt when nothing goes wrong."""
    token_ids = list(prompt_token_ids)
    for _ in range(num_tokens):
        token_ids.append(compute_next_token(token_ids))
    return token_ids[len(prompt_token_ids) :]


class HashExecutor(Executor):
    """A KV cache of token ids. Checks what the scheduler promises while it runs."""

    def __init__(self, num_blocks: int, block_size: int, max_num_requests: int = 1 << 30) -> None:
        self.block_size = block_size
        self.max_num_requests = max_num_requests
        self.slots: list[int] = [-1] * (num_blocks * block_size)
        self.token_ids: dict[RequestId, list[int]] = {}
        self.num_computed: dict[RequestId, int] = {}
        self.is_closed = False

    def execute(self, step: SchedulerOutput) -> ModelRunnerOutput:
        """Write each scheduled token into its slot, then choose by reading all of them back."""
        for request_id in step.finished:
            del self.token_ids[request_id], self.num_computed[request_id]
        for copy in step.copies:
            to, size = copy.target * self.block_size, self.block_size
            self.slots[to : to + size] = self.slots[copy.source * size : (copy.source + 1) * size]
        for new in step.added:
            assert new.request_id not in self.token_ids, "added twice"
            self.token_ids[new.request_id] = [*new.prompt_token_ids, *new.output_token_ids]
            self.num_computed[new.request_id] = -1  # whatever the cache holds of it
        assert len(self.token_ids) <= self.max_num_requests, "more rows than there may be"
        sampled = []
        for part in step.scheduled:
            known = self.token_ids[part.request_id]
            start, end = part.num_computed_tokens, part.num_computed_tokens + part.num_scheduled_tokens
            assert start == self.num_computed[part.request_id] or self.num_computed[part.request_id] == -1, (
                "computed tokens were forgotten or invented"
            )
            assert start < end <= len(known), "a token is scheduled that is not known"
            for position in range(start, end):
                self.slots[self.slot(part.block_ids, position)] = known[position]
            self.num_computed[part.request_id] = end
            if end == len(known):
                sampled.append(self.extend(part))
        for _ in range(step.repeat - 1):
            sampled += [self.repeat(part) for part in step.scheduled]
        return ModelRunnerOutput(step=step.step, sampled=tuple(sampled))

    def extend(self, part: ScheduledRequest) -> SampledToken:
        """Choose the next token of a request whose known ones are all computed."""
        known = self.token_ids[part.request_id]
        read_back = [self.slots[self.slot(part.block_ids, position)] for position in range(len(known))]
        token_id = self.choose(part.request_id, read_back)
        known.append(token_id)
        return SampledToken(part.request_id, token_id)

    def repeat(self, part: ScheduledRequest) -> SampledToken:
        """Compute the token just chosen, and choose again."""
        known = self.token_ids[part.request_id]
        assert self.num_computed[part.request_id] == len(known) - 1, "repeated with more than one token to compute"
        self.slots[self.slot(part.block_ids, len(known) - 1)] = known[-1]
        self.num_computed[part.request_id] = len(known)
        return self.extend(part)

    def slot(self, block_ids: Sequence[int], position: int) -> int:
        """Where a token lives."""
        return block_ids[position // self.block_size] * self.block_size + position % self.block_size

    def choose(self, request_id: RequestId, token_ids: list[int]) -> int:
        """The token after `token_ids`."""
        return compute_next_token(token_ids)

    def close(self) -> None:
        """Remember that it was closed."""
        self.is_closed = True


def make_limits(**changes: Any) -> SchedulerLimits:
    """Small limits, with `changes`."""
    values = {
        "max_num_batched_tokens": 64,
        "max_prefill_chunk": 16,
        "max_num_requests": 8,
        "max_model_len": 256,
        "vocab_size": VOCAB_SIZE,
    }
    return SchedulerLimits(**(values | changes))


def make_request(
    request_id: str,
    prompt: int | Sequence[int] = 5,
    max_tokens: int | None = 4,
    *,
    eos: tuple[int, ...] = (),
    outputs: tuple[int, ...] = (),
    priority: int = 0,
    arrival_s: float = 0.0,
    deadline_s: float = 0.0,
    tenant: str = "",
    salt: str = "",
    **sampling: object,
) -> NewRequest:
    """A greedy request. `prompt` is its tokens, or how many to make up from the id."""
    if isinstance(prompt, int):
        seed = zlib.crc32(request_id.encode())
        prompt = [(seed + 7 * position) % VOCAB_SIZE for position in range(prompt)]
    return NewRequest(
        request_id=RequestId(request_id),
        prompt_token_ids=tuple(prompt),
        sampling=SamplingParams(max_tokens=max_tokens, **({"temperature": 0.0} | sampling)),
        eos_token_ids=eos,
        output_token_ids=outputs,
        priority=priority,
        arrival_s=arrival_s,
        deadline_s=deadline_s,
        tenant=tenant,
        cache_salt=salt,
    )


def make_engine(
    num_blocks: int = 64, block_size: int = 4, executor: Executor | None = None, **limits: int
) -> EngineLoop:
    """A loop over a hash executor."""
    made = make_limits(**limits)
    scheduler = Scheduler(made, BlockPool(num_blocks, block_size))
    return EngineLoop(scheduler, executor or HashExecutor(num_blocks, block_size, made.max_num_requests))
