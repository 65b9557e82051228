"""What a request's sampling parameters mean, before any logits exist: its seed, its temperature, what it may not say.

All are pure functions of the request (and of the server's seed), so a request that is moved, preempted or sent again
after a crash is sampled the same way.
"""

from __future__ import annotations

import hashlib

from pelton.core.sampling_params import SamplingParams
from pelton.core.step import NewRequest

SEED_MASK = 2**64 - 1


def get_temperature(sampling: SamplingParams) -> float:
    """The temperature to divide by; 0 means "take the most likely token"."""
    return 0.0 if sampling.is_greedy else sampling.temperature


def compute_seed(request: NewRequest, server_seed: int) -> int:
    """The unsigned 64-bit key of a request's noise: its own seed, or one that follows from the server's and its id."""
    if request.sampling.seed is not None:
        return request.sampling.seed & SEED_MASK
    return hash_to_seed(server_seed, request.request_id.encode())


def get_banned_token_ids(request: NewRequest) -> tuple[int, ...]:
    """Tokens that the request may not emit before `min_tokens` outputs: all that would end it. Sorted."""
    if request.sampling.min_tokens == 0:
        return ()
    eos_token_ids = () if request.sampling.ignore_eos else request.eos_token_ids
    return tuple(sorted({*eos_token_ids, *request.sampling.stop_token_ids}))


def has_penalties(sampling: SamplingParams) -> bool:
    """Whether the tokens so far change the logits."""
    return sampling.presence_penalty != 0.0 or sampling.frequency_penalty != 0.0 or sampling.repetition_penalty != 1.0


def is_uniform(sampling: SamplingParams) -> bool:
    """Whether every token is chosen alike and nothing but its id is wanted, so that steps can be repeated."""
    return not (has_penalties(sampling) or sampling.logit_bias or sampling.min_tokens or sampling.logprobs is not None)


def hash_to_seed(key: int, data: bytes) -> int:
    """64 bits that follow from `key` and `data` and from nothing else, on every machine.

    >>> hash_to_seed(1, b"a") == hash_to_seed(1, b"a") != hash_to_seed(2, b"a")
    True
    """
    key_bytes = (key & SEED_MASK).to_bytes(8, "little")
    return int.from_bytes(hashlib.blake2b(data, digest_size=8, key=key_bytes).digest(), "little")
