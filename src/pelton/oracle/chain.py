"""What the oracle says: every token follows from the hash of all tokens before it, and of whose request it is.

A client that knows a request knows its whole answer (`compute_answer`). Nothing else can produce it: a token that was
read from a wrong place, belongs to another tenant or salt, was lost or repeated, changes every hash behind it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2s
from typing import Final

DIGEST_BYTES: Final = 16
FIRST_LETTER: Final = ord("a")  # the oracle says lower-case letters; in its own tokenizer an id below 256 is a byte
NUM_LETTERS: Final = 26
GREEDY_TEMPERATURE: Final = 1e-5


def begin(tenant: str, cache_salt: str) -> bytes:
    """The digest before the first token."""
    return blake2s(f"{len(tenant)} {tenant} {cache_salt}".encode(), digest_size=DIGEST_BYTES).digest()


def extend(digest: bytes, token_id: int) -> bytes:
    """The digest after one more token."""
    return blake2s(token_id.to_bytes(4, "little"), key=digest, digest_size=DIGEST_BYTES).digest()


def choose(digest: bytes, seed: int | None) -> int:
    """The token after those of `digest`. `seed` is None for greedy requests."""
    if seed is not None:
        digest = blake2s((seed % 2**64).to_bytes(8, "little"), key=digest, digest_size=DIGEST_BYTES).digest()
    return FIRST_LETTER + int.from_bytes(digest[:4], "little") % NUM_LETTERS


def compute_answer(
    prompt_token_ids: Iterable[int],
    num_tokens: int,
    *,
    tenant: str = "",
    cache_salt: str = "",
    seed: int | None = None,
    stop_token_ids: Sequence[int] = (),
) -> list[int]:
    """At most `num_tokens` tokens, up to the first stop token and with it. `seed` is None for greedy requests."""
    digest = begin(tenant, cache_salt)
    for token_id in prompt_token_ids:
        digest = extend(digest, token_id)
    answer: list[int] = []
    while len(answer) < num_tokens:
        answer.append(choose(digest, seed))
        if answer[-1] in stop_token_ids:
            break
        digest = extend(digest, answer[-1])
    return answer
