"""IQ1, IQ2 and IQ3: vectors of a codebook, with signs and scales. Whole blocks [N, bytes] -> [N, 256] float32.

A block of 256 elements has one float16, small integer scales for 16 or 32 elements, and for each 4 or 8 elements an
index into the codebook. IQ2_XXS, IQ2_XS and IQ3_XXS write eight signs as seven bits (`codebooks.sign_codes`), the
others as eight; IQ1 has no signs and moves each vector by an eighth up or down. Products are rounded in ggml's order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from pelton.checkpoint.block_bits import Bytes, Floats, bits, half, nibble_pairs, spread, words
from pelton.checkpoint.codebooks import codebook, sign_codes

_QUARTER, _HALF, _EIGHTH = np.float32(0.25), np.float32(0.5), np.float32(0.125)
_NINTH_TO_TWELFTH = np.array([0, 7, 14, 21], dtype=np.uint32)


def _chosen(book: str, indices: npt.NDArray[Any]) -> Floats:
    """The vectors at `indices` [N, V], one behind the other: [N, V * elements]."""
    vectors: Floats = codebook(book)[indices].reshape(len(indices), -1).astype(np.float32)
    return vectors


def _signs(eight: Bytes) -> Floats:
    """[N, B] -> [N, 8B]: -1 where a bit is set."""
    return np.float32(1) - np.float32(2) * bits(eight)


def _packed_signs(words_of_four: npt.NDArray[Any]) -> Floats:
    """[N, 8] words, each with four times seven bits -> signs of [N, 256]."""
    seven = words_of_four[:, :, None] >> _NINTH_TO_TWELFTH & np.uint32(127)
    return _signs(sign_codes()[seven].reshape(len(seven), -1))


def _steps(d: Floats, fours: npt.NDArray[Any], factor: np.float32) -> Floats:
    return d * (_HALF + fours.astype(np.float32)) * factor


def _iq2_xxs(blocks: Bytes) -> Floats:
    pairs = words(blocks, 2, 66, "<u4").reshape(-1, 8, 2)
    indices = np.ascontiguousarray(pairs[:, :, 0]).view(np.uint8).reshape(-1, 32)
    steps = _steps(half(blocks, 0), pairs[:, :, 1] >> 28, _QUARTER)
    return spread(steps, 32) * _chosen("IQ2_XXS", indices) * _packed_signs(pairs[:, :, 1])


def _iq2_xs(blocks: Bytes) -> Floats:
    codes = words(blocks, 2, 66, "<u2")
    steps = _steps(half(blocks, 0), nibble_pairs(blocks[:, 66:74]), _QUARTER)
    return spread(steps, 16) * _chosen("IQ2_XS", codes & 511) * _signs(sign_codes()[codes >> 9])


def _iq2_s(blocks: Bytes) -> Floats:
    upper = blocks[:, 66:74, None] >> np.array([0, 2, 4, 6], np.uint8) & np.uint8(3)
    indices = blocks[:, 2:34] | upper.reshape(-1, 32).astype(np.uint16) << 8
    steps = _steps(half(blocks, 0), nibble_pairs(blocks[:, 74:82]), _QUARTER)
    return spread(steps, 16) * _chosen("IQ2_S", indices) * _signs(blocks[:, 34:66])


def _iq3_xxs(blocks: Bytes) -> Floats:
    fours = words(blocks, 66, 98, "<u4")
    steps = _steps(half(blocks, 0), fours >> 28, _HALF)
    return spread(steps, 32) * _chosen("IQ3_XXS", blocks[:, 2:66]) * _packed_signs(fours)


def _iq3_s(blocks: Bytes) -> Floats:
    indices = blocks[:, 2:66] | bits(blocks[:, 66:74]).astype(np.uint16) << 8
    steps = half(blocks, 0) * (2 * nibble_pairs(blocks[:, 106:110]) + 1).astype(np.float32)
    return spread(steps, 32) * _chosen("IQ3_S", indices) * _signs(blocks[:, 74:106])


def _moved(indices: npt.NDArray[Any], is_down: npt.NDArray[Any], size: int) -> Floats:
    """The vectors of IQ1, an eighth lower where `is_down` says so for `size` elements, else an eighth higher."""
    return _chosen("IQ1", indices) + spread(np.where(is_down, -_EIGHTH, _EIGHTH), size)


def _iq1_s(blocks: Bytes) -> Floats:
    high = words(blocks, 34, 50, "<u2")
    upper = high[:, :, None] >> np.array([0, 3, 6, 9], np.uint16) & np.uint16(7)
    indices = blocks[:, 2:34] | upper.reshape(-1, 32) << 8
    steps = half(blocks, 0) * (2 * (high >> 12 & 7) + 1).astype(np.float32)
    return spread(steps, 32) * _moved(indices, high & 0x8000, 32)


def _iq1_m(blocks: Bytes) -> Floats:
    """The float16 is made of the highest four bits of four words, which hold four scales of three bits each."""
    fours = words(blocks, 48, 56, "<u2")
    d_bits = np.bitwise_or.reduce(fours >> 12 << np.array([0, 4, 8, 12], np.uint16), axis=1, keepdims=True)
    threes = (fours[:, :, None] >> np.array([0, 3, 6, 9], np.uint16) & 7).reshape(-1, 16)
    steps = d_bits.astype("<u2").view("<f2").astype(np.float32) * (2 * threes + 1).astype(np.float32)
    high = nibble_pairs(blocks[:, 32:48])
    indices = blocks[:, :32] | (high & 7).astype(np.uint16) << 8
    return spread(steps, 16) * _moved(indices, high & 8, 8)


CODEBOOK_BLOCKS: dict[str, Callable[[Bytes], Floats]] = {
    "IQ1_S": _iq1_s,
    "IQ1_M": _iq1_m,
    "IQ2_XXS": _iq2_xxs,
    "IQ2_XS": _iq2_xs,
    "IQ2_S": _iq2_s,
    "IQ3_XXS": _iq3_xxs,
    "IQ3_S": _iq3_s,
}
