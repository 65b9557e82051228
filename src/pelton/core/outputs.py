"""What the engine tells about a request while it runs, and about itself."""

from __future__ import annotations

from typing import Literal

import msgspec

from pelton.core.step import RequestId, TokenLogprobs

FinishReason = Literal["stop", "length", "abort", "error"]
MissReason = Literal["hit", "off", "evicted", "salt", "diverged", "tail", "new"]


class Timings(msgspec.Struct, frozen=True, kw_only=True):
    """When things happened to a request, in seconds of the engine's monotonic clock; 0 where it has not."""

    arrival_s: float = 0.0
    first_scheduled_s: float = 0.0
    first_token_s: float = 0.0
    last_token_s: float = 0.0
    num_preemptions: int = 0
    num_restarts: int = 0  # engines that it has outlived; counted by the server


class CacheMiss(msgspec.Struct, frozen=True):
    """Why a prompt's tokens from `position` on were not in the prefix cache.

    hit: all but the last were. off: there is no cache. evicted: the next block was there and had to go. salt: the next
    block is there under another cache_salt of this tenant. diverged: what is cached goes on with other tokens. tail:
    what is left fills no block. new: not seen before, as far as is remembered.
    """

    reason: MissReason
    position: int


class PrefixInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A named prefix that stays in the cache."""

    name: str
    num_tokens: int  # in whole blocks; the rest of the prefix is not kept
    num_cached_tokens: int  # of them, those in the cache: the others are kept once a request has computed them
    ttl_left_s: float | None  # None: until it is released


class RequestOutput(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens that are new since the last output of this request. Exactly one output has a `finish_reason`, the last."""

    request_id: RequestId
    token_ids: tuple[int, ...] = ()
    logprobs: tuple[TokenLogprobs, ...] = ()  # one per token, if asked for
    finish_reason: FinishReason | None = None
    stop_token_id: int | None = None  # the end-of-sequence or stop token that ended it; it is the last of token_ids
    error: str | None = None  # with finish_reason "error": one sentence for the client
    error_class: str = ""  # the class of `pelton.errors` that the client gets; "" is InternalError
    num_cached_tokens: int = 0
    cache_miss: CacheMiss | None = None  # if the request wants it explained
    timings: Timings = Timings()


class EngineStats(msgspec.Struct, frozen=True, kw_only=True):
    """Gauges of this moment and counters since the engine started; from a client, since the first one started."""

    num_running: int = 0
    num_waiting: int = 0
    num_blocks: int = 0
    num_free_blocks: int = 0
    num_steps: int = 0
    num_preemptions: int = 0
    num_prompt_tokens: int = 0  # prompt tokens computed
    num_generation_tokens: int = 0
    num_prefix_queries: int = 0  # tokens looked up in the prefix cache, and found there
    num_prefix_hits: int = 0
    num_step_tokens: int = 0  # tokens computed, those computed again included
    step_tokens: tuple[int, ...] = ()  # steps by their number of tokens: `observability.bucket.count_into`
    num_waiting_tokens: int = 0  # of the requests in the queue
    prompt_tokens_per_s: float = 0.0  # speeds of late; 0 before they are known
    decode_tokens_per_s: float = 0.0  # of all requests that run, together
    last_step_s: float = 0.0  # duration of the last step
    is_busy: bool = False  # there is work; then steps must make progress
    is_up: bool = True  # there is an engine; this and the next are filled in by its client
    num_restarts: int = 0
