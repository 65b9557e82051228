"""Philox4x32-10: noise as a pure function of a key and a counter (Salmon et al. 2011, doi:10.1145/2063384.2063405).

The sampler's number for a request depends on its seed and on the position of the token alone, so it is the same in
any batch, in any row and after a restart.
"""

from __future__ import annotations

MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)
ROUNDS = 10
MASK32 = 0xFFFFFFFF

Counter = tuple[int, int, int, int]


def philox4x32(counter: Counter, key: tuple[int, int]) -> Counter:
    """Four 32-bit words for this counter and key.

    >>> [hex(x) for x in philox4x32((0, 0, 0, 0), (0, 0))]
    ['0x6627e8d5', '0xe169c58d', '0xbc57ac4c', '0x9b00dbd8']
    """
    x0, x1, x2, x3 = counter
    k0, k1 = key
    for _ in range(ROUNDS):
        product0, product1 = MULTIPLIERS[0] * x0, MULTIPLIERS[1] * x2
        x0, x1, x2, x3 = (product1 >> 32) ^ x1 ^ k0, product1 & MASK32, (product0 >> 32) ^ x3 ^ k1, product0 & MASK32
        k0, k1 = (k0 + WEYL[0]) & MASK32, (k1 + WEYL[1]) & MASK32
    return x0, x1, x2, x3


def uniform(seed: int, position: int) -> float:
    """A number in [0, 1) with 53 random bits, for the token that follows `position` others.

    >>> uniform(0, 0) == ((0x6627e8d5 >> 5) * 2**26 + (0xe169c58d >> 6)) / 2**53
    True
    """
    x0, x1, _, _ = philox4x32((position & MASK32, position >> 32, 0, 0), (seed & MASK32, seed >> 32))
    return ((x0 >> 5) * 2**26 + (x1 >> 6)) / 2**53
