"""Schemes of one or two bits, NVFP4, and those that hold no weights as a rule (Q8_1, Q8_K, integers, doubles).

Whole blocks [N, bytes] -> [N, elements] float32. A number that float32 cannot hold is refused, not rounded: that
concerns I32, I64 and F64 alone. NVFP4 is without its tensor's own scale, which stands in another tensor.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pelton.checkpoint.block_bits import Bytes, Floats, bits, half, nibbles, spread, two_bits
from pelton.errors import CheckpointError

_EXACT_UP_TO = 1 << 24
_POWERS_OF_3 = np.array([1, 3, 9, 27, 81], dtype=np.uint8)
E2M1_DOUBLED = np.array([0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12], dtype=np.float32)


def trits(blocks: Bytes) -> Bytes:
    """The digits 0 to 2 of TQ1_0 [N, 54]: a byte is a fraction of 256 whose five digits to the base of 3 are read.

    Of 32 bytes, of 16 and of 4: first digits, then second ones, and so on; the last bytes have four.
    """
    runs = ((0, 32, 5), (32, 48, 5), (48, 52, 4))
    moved = [blocks[:, None, begin:end] * _POWERS_OF_3[:count, None] for begin, end, count in runs]
    fractions = np.concatenate([each.reshape(len(blocks), -1) for each in moved], axis=1)
    return (fractions.astype(np.uint16) * 3 >> 8).astype(np.uint8)


def codes_of_two_bits(packed: Bytes) -> Bytes:
    """[N, B] -> [N, 4B]: four neighbours to a byte, the first in its lowest bits."""
    return (packed[:, :, None] >> np.array([0, 2, 4, 6], np.uint8) & np.uint8(3)).reshape(len(packed), -1)


def _tq1_0(blocks: Bytes) -> Floats:
    return half(blocks, 52) * (trits(blocks).astype(np.float32) - 1)


def _tq2_0(blocks: Bytes) -> Floats:
    return half(blocks, 64) * (two_bits(blocks[:, :64]).astype(np.float32) - 1)


def _q1_0(blocks: Bytes) -> Floats:
    d = half(blocks, 0)
    return np.where(bits(blocks[:, 2:]) == 1, d, -d)


def _q2_0(blocks: Bytes) -> Floats:
    return half(blocks, 0) * (codes_of_two_bits(blocks[:, 2:]).astype(np.float32) - 1)


def ue4m3(codes: Bytes) -> Floats:
    """Half of what unsigned E4M3 codes are worth: their integers are doubled. ggml takes 0x7F for zero.

    The highest bit is not part of a code; ggml ignores it, but for comparing with 0x7F.
    """
    exponents, mantissas = (codes >> 3 & 15).astype(np.int32), (codes & 7).astype(np.float32)
    small = np.ldexp(mantissas, -10)
    values = np.where(exponents == 0, small, np.ldexp(8 + mantissas, exponents - 11))
    return np.where(codes == 0x7F, np.float32(0), values).astype(np.float32)


def _nvfp4(blocks: Bytes) -> Floats:
    """Four groups of 16, of whose 8 bytes the low halves come first."""
    codes = nibbles(blocks[:, 4:].reshape(-1, 8)).reshape(-1, 64)
    return spread(ue4m3(blocks[:, :4]), 16) * E2M1_DOUBLED[codes]


def _nvfp4_scaled(blocks: Bytes) -> Floats:
    """The tensor's scale before each block; the product is rounded once."""
    return np.ascontiguousarray(blocks[:, :4]).view("<f4") * _nvfp4(blocks[:, 4:])


def _q8_1(blocks: Bytes) -> Floats:
    """The second float16 is the sum of the integers times the first: for products, not for values."""
    return half(blocks, 0) * np.ascontiguousarray(blocks[:, 4:]).view(np.int8).astype(np.float32)


def _q8_k(blocks: Bytes) -> Floats:
    scales = np.ascontiguousarray(blocks[:, :4]).view("<f4").astype(np.float32)
    return scales * np.ascontiguousarray(blocks[:, 4:260]).view(np.int8).astype(np.float32)


def _whole(dtype: str, scheme: str) -> Callable[[Bytes], Floats]:
    def convert(blocks: Bytes) -> Floats:
        given = blocks.view(dtype)
        if given.size and max(-int(given.min()), int(given.max())) > _EXACT_UP_TO:
            raise _too_long(scheme)
        return given.astype(np.float32)

    return convert


def _f64(blocks: Bytes) -> Floats:
    given = blocks.view("<f8")
    values = given.astype(np.float32)
    if not np.array_equal(values, given, equal_nan=True):
        raise _too_long("F64")
    return values


def _too_long(scheme: str) -> CheckpointError:
    return CheckpointError(f"{scheme} numbers need more than the 24 bits of float32, and are not rounded here.")


FEW_LEVELS_BLOCKS: dict[str, Callable[[Bytes], Floats]] = {
    "TQ1_0": _tq1_0,
    "TQ2_0": _tq2_0,
    "Q1_0": _q1_0,
    "Q2_0": _q2_0,
    "NVFP4": _nvfp4,
    "NVFP4_SCALED": _nvfp4_scaled,
    "Q8_1": _q8_1,
    "Q8_K": _q8_k,
    "I8": _whole("i1", "I8"),
    "I16": _whole("<i2", "I16"),
    "I32": _whole("<i4", "I32"),
    "I64": _whole("<i8", "I64"),
    "F64": _f64,
}
