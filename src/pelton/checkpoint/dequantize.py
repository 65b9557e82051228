"""Stored bytes -> float32, exactly as the formats define it: the meaning of every scheme, in plain numpy.

Each function takes whole blocks [N, block_bytes] and gives [N, block_size]; products and differences are rounded to
float32 in the order that ggml rounds them, so the results are bit for bit those of its reference. Float16 infinities
and NaNs pass through. Groups are worth scale * (q - zero): the difference is exact, the product rounded once.
Cost: the float32 array and a few temporaries of its size; meant for loading small tensors, for the reference backend
and for tests, not for the hot path. Source: ggml's block definitions (ggml-common.h).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pelton.checkpoint.block_bits import Bytes, Floats, half, nibbles, spread, two_bits
from pelton.checkpoint.dequantize_codebooks import CODEBOOK_BLOCKS
from pelton.checkpoint.dequantize_few_levels import E2M1_DOUBLED, FEW_LEVELS_BLOCKS
from pelton.checkpoint.dequantize_small_floats import SMALL_FLOAT_BLOCKS
from pelton.checkpoint.scheme import NUMERIC, get_scheme, row_bytes
from pelton.checkpoint.weight import Tensor
from pelton.errors import CheckpointError

__all__ = ["dequantize", "dequantize_rows", "row_bytes"]


def dequantize(tensor: Tensor) -> Floats:
    """The tensor's numbers in its own shape, a fresh array. Raises CheckpointError for a scheme without numbers."""
    return dequantize_rows(tensor.scheme, tensor.payload).reshape(tensor.shape)


def dequantize_rows(scheme: str, payload: Bytes) -> Floats:
    """[rows, row_bytes] of any scheme -> [rows, elements] float32, a fresh array."""
    if scheme not in NUMERIC:
        raise CheckpointError(
            f"{scheme} weights have no exact float32 values here. Known: {', '.join(sorted(NUMERIC))}."
        )
    known = get_scheme(scheme)
    num_rows, num_bytes = payload.shape
    assert num_bytes % known.block_bytes == 0, f"{num_bytes} bytes are not whole {scheme} blocks"
    blocks = np.ascontiguousarray(payload).reshape(-1, known.block_bytes)
    # A quiet NaN in a scale is data, not a mistake: checks for it stand where weights are loaded.
    with np.errstate(invalid="ignore", over="ignore"):
        values = _BLOCKS[scheme](blocks)
    return values.reshape(num_rows, num_bytes // known.block_bytes * known.block_size)


def _f32(blocks: Bytes) -> Floats:
    return blocks.view("<f4").astype(np.float32)


def _f16(blocks: Bytes) -> Floats:
    return blocks.view("<f2").astype(np.float32)


def _bf16(blocks: Bytes) -> Floats:
    return (blocks.view("<u2").astype(np.uint32) << 16).view(np.float32)


def _fifth_bits(blocks: Bytes, at: int) -> Bytes:
    """The 32 bits of the word at byte `at`, lowest first, each worth 16: [N, 32]."""
    return np.unpackbits(blocks[:, at : at + 4], axis=1, bitorder="little") << np.uint8(4)


def _q4_0(blocks: Bytes) -> Floats:
    return half(blocks, 0) * (nibbles(blocks[:, 2:]).astype(np.float32) - 8)


def _q4_1(blocks: Bytes) -> Floats:
    return half(blocks, 0) * nibbles(blocks[:, 4:]).astype(np.float32) + half(blocks, 2)


def _q5_0(blocks: Bytes) -> Floats:
    quants = nibbles(blocks[:, 6:]) | _fifth_bits(blocks, 2)
    return half(blocks, 0) * (quants.astype(np.float32) - 16)


def _q5_1(blocks: Bytes) -> Floats:
    quants = nibbles(blocks[:, 8:]) | _fifth_bits(blocks, 4)
    return half(blocks, 0) * quants.astype(np.float32) + half(blocks, 2)


def _q8_0(blocks: Bytes) -> Floats:
    return half(blocks, 0) * np.ascontiguousarray(blocks[:, 2:]).view(np.int8).astype(np.float32)


def _q2_k(blocks: Bytes) -> Floats:
    scales, quants = blocks[:, :16], two_bits(blocks[:, 16:80])
    d, dmin = half(blocks, 80), half(blocks, 82)
    steps = spread(d * (scales & 15).astype(np.float32), 16)
    return steps * quants.astype(np.float32) - spread(dmin * (scales >> 4).astype(np.float32), 16)


def _q3_k(blocks: Bytes) -> Floats:
    """The third bit of element 32 * b + l is bit b of hmask[l], and stands for -4 where it is clear."""
    hmask, quants = blocks[:, :32], two_bits(blocks[:, 32:96])
    bits = np.arange(8, dtype=np.uint8).reshape(1, 8, 1)
    is_set = ((hmask.reshape(-1, 1, 32) >> bits) & 1).reshape(-1, 256)
    values = quants.astype(np.float32) - np.where(is_set == 1, np.float32(0), np.float32(4))
    low, high = nibbles(blocks[:, 96:104]), blocks[:, 104:108]
    shifts = np.array([0, 2, 4, 6], dtype=np.uint8).reshape(1, 4, 1)
    upper = ((high.reshape(-1, 1, 4) >> shifts) & 3).reshape(-1, 16)
    scales = (low | (upper << np.uint8(4))).astype(np.float32) - 32
    return spread(half(blocks, 108) * scales, 16) * values


def _six_bit_scales(packed: Bytes) -> tuple[Bytes, Bytes]:
    """[N, 12] -> eight 6-bit scales and eight 6-bit minimums, as Q4_K and Q5_K pack them."""
    first, second, third = packed[:, 0:4], packed[:, 4:8], packed[:, 8:12]
    scales = np.concatenate((first & 63, (third & 15) | ((first >> 6) << np.uint8(4))), axis=1)
    minimums = np.concatenate((second & 63, (third >> 4) | ((second >> 6) << np.uint8(4))), axis=1)
    return scales, minimums


def _scaled_with_minimums(blocks: Bytes, quants: Bytes) -> Floats:
    scales, minimums = _six_bit_scales(blocks[:, 4:16])
    steps = half(blocks, 0) * scales.astype(np.float32)
    offsets = half(blocks, 2) * minimums.astype(np.float32)
    return spread(steps, 32) * quants.astype(np.float32) - spread(offsets, 32)


def _nibbles_by_64(packed: Bytes) -> Bytes:
    """[N, 128] -> [N, 256]: of each 32 bytes the low halves, then the high ones."""
    return nibbles(packed.reshape(-1, 32)).reshape(-1, 256)


def _q4_k(blocks: Bytes) -> Floats:
    return _scaled_with_minimums(blocks, _nibbles_by_64(blocks[:, 16:]))


def _q5_k(blocks: Bytes) -> Floats:
    """The fifth bit of element 32 * b + l is bit b of qh[l]."""
    bits = np.arange(8, dtype=np.uint8).reshape(1, 8, 1)
    fifth: Bytes = ((blocks[:, 16:48].reshape(-1, 1, 32) >> bits) & np.uint8(1)).reshape(-1, 256)
    return _scaled_with_minimums(blocks, _nibbles_by_64(blocks[:, 48:]) | (fifth << np.uint8(4)))


def _q6_k(blocks: Bytes) -> Floats:
    """Of each half: low bits from 64 bytes (low nibbles, then high ones), high bits from 32 bytes, two at a time."""
    low = nibbles(blocks[:, :128].reshape(-1, 64)).reshape(-1, 256)
    high = two_bits(blocks[:, 128:192])
    quants = (low | (high << np.uint8(4))).astype(np.float32) - 32
    scales = np.ascontiguousarray(blocks[:, 192:208]).view(np.int8).astype(np.float32)
    return spread(half(blocks, 208) * scales, 16) * quants


_IQ4_VALUES = np.array(
    [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], dtype=np.float32
)  # of ggml's kvalues_iq4nl


def _iq4_nl(blocks: Bytes) -> Floats:
    return half(blocks, 0) * _IQ4_VALUES[nibbles(blocks[:, 2:])]


def _iq4_xs(blocks: Bytes) -> Floats:
    """Eight 6-bit scales less 32: low halves two to a byte, high bits two to a scale in one word."""
    groups = np.arange(8, dtype=np.uint16)
    high = np.ascontiguousarray(blocks[:, 2:4]).view("<u2") >> (2 * groups) & 3
    low = (np.repeat(blocks[:, 4:8], 2, axis=1) >> (4 * (groups % 2)).astype(np.uint8)) & 15
    steps = half(blocks, 0) * ((low | high << 4).astype(np.float32) - 32)
    codes = nibbles(blocks[:, 8:].reshape(-1, 16)).reshape(-1, 256)
    return spread(steps, 32) * _IQ4_VALUES[codes]


def _mxfp4(blocks: Bytes) -> Floats:
    """2^(e - 128) is half of the scale; the integers are twice the numbers."""
    exponents = blocks[:, :1].astype(np.uint32)
    bits = np.where(exponents < 2, np.uint32(0x00200000) << np.minimum(exponents, 1), (exponents - 1) << 23)
    return bits.astype(np.uint32).view(np.float32) * E2M1_DOUBLED[nibbles(blocks[:, 1:])]


def _grouped(blocks: Bytes, integers: Bytes) -> Floats:
    scales = np.ascontiguousarray(blocks[:, :4]).view("<f4")
    return scales * (integers.astype(np.float32) - blocks[:, 4:5].astype(np.float32))


def _int4(blocks: Bytes) -> Floats:
    return _grouped(blocks, nibbles(blocks[:, 5:].reshape(-1, 16)).reshape(len(blocks), -1))


def _int8(blocks: Bytes) -> Floats:
    return _grouped(blocks, blocks[:, 5:])


_BLOCKS: dict[str, Callable[[Bytes], Floats]] = {
    "F32": _f32,
    "F16": _f16,
    "BF16": _bf16,
    "Q4_0": _q4_0,
    "Q4_1": _q4_1,
    "Q5_0": _q5_0,
    "Q5_1": _q5_1,
    "Q8_0": _q8_0,
    "Q2_K": _q2_k,
    "Q3_K": _q3_k,
    "Q4_K": _q4_k,
    "Q5_K": _q5_k,
    "Q6_K": _q6_k,
    "IQ4_NL": _iq4_nl,
    "IQ4_XS": _iq4_xs,
    "MXFP4": _mxfp4,
    "INT4_G32": _int4,
    "INT4_G128": _int4,
    "INT8_G32": _int8,
    "INT8_G128": _int8,
    **CODEBOOK_BLOCKS,
    **FEW_LEVELS_BLOCKS,
    **SMALL_FLOAT_BLOCKS,
}
