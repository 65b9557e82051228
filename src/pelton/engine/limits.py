"""The sizes a scheduler works within, and the one check of a request against them.

The check is pure, so the server runs it before it sends a request (a 400 at once) and the scheduler runs it again
before it believes one (a request must never be able to raise inside a step).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from pelton.core.messages import EngineFacts
from pelton.core.step import NewRequest
from pelton.errors import ConfigError, RequestError, TooLong


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerLimits:
    """What one step, and one request, may take. Counts are tokens unless the name says otherwise."""

    max_num_batched_tokens: int  # of one step, all requests together
    max_prefill_chunk: int  # of one step, one request
    max_num_requests: int  # that run at the same time
    max_model_len: int  # prompt and output of one request together
    vocab_size: int
    enable_prefix_caching: bool = True
    target_itl_s: float = math.inf  # of a step with tokens of prompts beside others'; 0: twice one without
    max_repeat: int = 1  # decode steps that the executor can make in one call

    def __post_init__(self) -> None:
        for name in ("max_prefill_chunk", "max_num_requests", "vocab_size", "max_repeat"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name}={getattr(self, name)}: give at least 1.")
        if self.max_model_len < 2:
            raise ConfigError(f"max_model_len={self.max_model_len}: give at least 2, a prompt token and an output.")
        if self.max_num_batched_tokens < self.max_num_requests:
            raise ConfigError(
                f"max_num_batched_tokens={self.max_num_batched_tokens} is less than "
                f"max_num_requests={self.max_num_requests}: every running request needs a token of each step. "
                "Raise the first or lower the second."
            )


def check_request(request: NewRequest, limits: SchedulerLimits, num_pool_tokens: int) -> None:
    """Raise RequestError if `request` could not run alone on an empty engine, or names a token that does not exist."""
    num_tokens = len(request.prompt_token_ids) + len(request.output_token_ids)
    if not request.prompt_token_ids:
        raise RequestError("prompt: it has no tokens, expected at least one.", param="prompt")
    if num_tokens + 1 > limits.max_model_len:
        raise TooLong(
            f"prompt: {num_tokens} tokens, and max_model_len={limits.max_model_len} must hold it and one output token. "
            "Shorten the prompt.",
            param="prompt",
            code="context_length_exceeded",
        )
    if num_tokens + 1 > num_pool_tokens:
        raise TooLong(
            f"prompt: {num_tokens} tokens, and the whole KV pool holds {num_pool_tokens} with one output token. "
            "Shorten the prompt, or give the server more KV memory.",
            param="prompt",
            code="context_length_exceeded",
        )
    check_token_ids("prompt", request.prompt_token_ids, limits.vocab_size)
    check_token_ids("prompt", request.output_token_ids, limits.vocab_size)
    check_token_ids("stop_token_ids", request.sampling.stop_token_ids, limits.vocab_size)
    check_token_ids("logit_bias", tuple(request.sampling.logit_bias), limits.vocab_size)


def check_against_facts(request: NewRequest, facts: EngineFacts) -> None:
    """The same check, on the server's side, with what the engine has told of itself."""
    limits = SchedulerLimits(
        max_num_batched_tokens=facts.max_num_batched_tokens,
        max_prefill_chunk=facts.max_prefill_chunk,
        max_num_requests=facts.max_num_requests,
        max_model_len=facts.max_model_len,
        vocab_size=facts.vocab_size,
    )
    check_request(request, limits, facts.num_blocks * facts.block_size)


def check_token_ids(name: str, token_ids: tuple[int, ...], vocab_size: int) -> None:
    """Raise RequestError, naming the field, unless all ids are in [0, vocab_size)."""
    if token_ids and not (min(token_ids) >= 0 and max(token_ids) < vocab_size):
        wrong = next(token_id for token_id in token_ids if not 0 <= token_id < vocab_size)
        raise RequestError(
            f"{name}: token id {str(wrong)[:32]} does not exist, expected ids in [0, {vocab_size - 1}].", param=name
        )


def get_length_limit(request: NewRequest, limits: SchedulerLimits, num_pool_tokens: int) -> int:
    """Prompt and output tokens at which `request` ends with "length"."""
    limit = min(limits.max_model_len, num_pool_tokens)
    if request.sampling.max_tokens is None:
        return limit
    return min(limit, len(request.prompt_token_ids) + request.sampling.max_tokens)
