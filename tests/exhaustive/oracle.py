"""What a slot of the cache holds, and which token comes next: hashes of all tokens before, and of whose they are."""

from __future__ import annotations

import functools
import zlib

from tests.exhaustive.setting import VOCAB_SIZE


@functools.lru_cache(1 << 16)
def get_chain(tenant: str, cache_salt: str, tokens: tuple[int, ...]) -> int:
    """What the slot of the last of `tokens` holds."""
    before = get_chain(tenant, cache_salt, tokens[:-1]) if tokens else zlib.crc32(f"{tenant}/{cache_salt}".encode())
    return extend(before, tokens[-1]) if tokens else before


def extend(chain: int, token_id: int) -> int:
    return zlib.crc32(b"%d,%d" % (chain, token_id))


def choose(chain: int) -> int:
    """The oracle's next token."""
    return (chain >> 7) % VOCAB_SIZE
