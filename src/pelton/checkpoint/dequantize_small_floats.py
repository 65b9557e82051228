"""Floating-point numbers of 8, 6 and 4 bits: whole blocks [N, bytes] -> [N, elements] float32, exact for every code.

One table for each format. FN: no infinity, and NaN where all bits but the sign are set. FNUZ: one zero, and NaN where
minus zero would be. E8M0: powers of two, NaN at 255. Six and four bits have neither infinity nor NaN. Of two F4 in a
byte the low half comes first, as PyTorch has it; safetensors does not say how F6 lie in bytes: here the lowest bits
come first, as in F4. Source: the OCP specifications of FP8 and of microscaling formats.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from pelton.checkpoint.block_bits import Bytes, Floats

Specials = Literal["ieee", "fn", "fnuz", "none"]


def make_table(exponent_bits: int, mantissa_bits: int, bias: int, specials: Specials) -> Floats:
    """The number of each code, the sign in its highest bit."""
    num_codes = 2 << exponent_bits + mantissa_bits
    codes = np.arange(num_codes)
    mantissas = codes & (1 << mantissa_bits) - 1
    exponents = codes >> mantissa_bits & (1 << exponent_bits) - 1
    fractions = np.where(exponents > 0, mantissas + (1 << mantissa_bits), mantissas).astype(np.float64)
    values = np.ldexp(fractions, np.maximum(exponents, 1) - bias - mantissa_bits)
    is_last = exponents == (1 << exponent_bits) - 1
    if specials == "ieee":
        values[is_last & (mantissas == 0)] = np.inf
        values[is_last & (mantissas > 0)] = np.nan
    elif specials == "fn":
        values[is_last & (mantissas == (1 << mantissa_bits) - 1)] = np.nan
    values[num_codes // 2 :] *= -1.0
    if specials == "fnuz":
        values[num_codes // 2] = np.nan
    table: Floats = values.astype(np.float32)
    return table


def _powers_of_two() -> Floats:
    powers = np.ldexp(np.float64(1.0), np.arange(255) - 127).astype(np.float32)
    return np.append(powers, np.float32(np.nan))


_TABLES = {
    "F8_E4M3": make_table(4, 3, 7, "fn"),
    "F8_E5M2": make_table(5, 2, 15, "ieee"),
    "F8_E4M3FNUZ": make_table(4, 3, 8, "fnuz"),
    "F8_E5M2FNUZ": make_table(5, 2, 16, "fnuz"),
    "F8_E8M0": _powers_of_two(),
    "F6_E2M3": make_table(2, 3, 1, "none"),
    "F6_E3M2": make_table(3, 2, 3, "none"),
    "F4": make_table(2, 1, 1, "none"),
}


def _codes(blocks: Bytes, width: int) -> Bytes:
    """[N, B] -> [N, 8 * B / width] codes of `width` bits, the lowest bits first."""
    if width == 8:
        return blocks
    bits = np.unpackbits(blocks, axis=1, bitorder="little").reshape(len(blocks), -1, width)
    return np.packbits(bits, axis=2, bitorder="little")[:, :, 0]


def _reader(table: Floats) -> Callable[[Bytes], Floats]:
    width = len(table).bit_length() - 1
    return lambda blocks: table[_codes(blocks, width)]


SMALL_FLOAT_BLOCKS: dict[str, Callable[[Bytes], Floats]] = {name: _reader(table) for name, table in _TABLES.items()}
