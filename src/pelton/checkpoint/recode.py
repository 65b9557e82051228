"""Rows of schemes that no kernel knows, written in one that kernels know: the same numbers, bit for bit.

One and two bits per weight fit Q4_0, whose integers hold -1 to 2 about their zero of 8. IQ1_S, IQ2_XXS, IQ3_XXS and
IQ3_S have one scale for 32 elements and integers of eight bits below it, which is what INT8_G32 stores. NVFP4 numbers
have six significant bits and become BF16. Of the others nothing smaller than F32 holds every number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import numpy as np

from pelton.checkpoint.block_bits import Bytes, Floats, bits, two_bits
from pelton.checkpoint.contract import TensorInfo
from pelton.checkpoint.dequantize import dequantize_rows
from pelton.checkpoint.dequantize_few_levels import codes_of_two_bits, trits
from pelton.checkpoint.scheme import EXPANDED, get_scheme, row_bytes
from pelton.checkpoint.weight import Conversion, Tensor

_CHUNK_ELEMENTS = 1 << 20
_SMALLEST_STEP = {"IQ1_S": np.float32(0.125), "IQ2_XXS": np.float32(0.125), "IQ3_XXS": np.float32(0.25)}


def recoded(tensor: Tensor) -> Tensor:
    """`tensor` in a scheme that kernels know, made when its rows are asked for; as it is, if it is in one already."""
    if tensor.scheme not in EXPANDED:
        return tensor
    scheme, becomes = tensor.scheme, TARGETS[tensor.scheme][0]
    stored = _unmade(tensor)
    make, make_rows = stored.make, stored.make_rows
    made = Conversion(
        stored.sources,
        f"{stored.recipe} as {becomes}",
        lambda: recode_rows(scheme, make()),
        None if make_rows is None else lambda begin, end: recode_rows(scheme, make_rows(begin, end)),
    )
    return Tensor(tensor.name, tensor.shape, becomes, made)


def _unmade(tensor: Tensor) -> Conversion:
    stored = tensor.stored
    if isinstance(stored, Conversion):
        return stored
    return Conversion((stored,), tensor.scheme, lambda: stored, lambda begin, end: stored[begin:end])


def held_bytes(tensors: Iterable[TensorInfo]) -> int:
    """Bytes of all tensors in the schemes they are computed with."""
    return sum(_held_bytes(info) for info in tensors)


def _held_bytes(info: TensorInfo) -> int:
    if info.scheme not in EXPANDED:
        return info.nbytes
    return math.prod(info.shape[:-1]) * row_bytes(TARGETS[info.scheme][0], info.shape[-1])


def recode_rows(scheme: str, payload: Bytes) -> Bytes:
    """[rows, row_bytes] of an expanded scheme -> rows of TARGETS[scheme], a fresh array made in small pieces."""
    target, make = TARGETS[scheme]
    known = get_scheme(scheme)
    num_rows, num_elements = len(payload), payload.shape[1] // known.block_bytes * known.block_size
    rows = np.empty((num_rows, row_bytes(target, num_elements)), dtype=np.uint8)
    step = max(1, _CHUNK_ELEMENTS // max(1, num_elements))
    for begin in range(0, num_rows, step):
        part = np.ascontiguousarray(payload[begin : begin + step])
        rows[begin : begin + step] = make(scheme, part).reshape(len(part), -1)
    return rows


def _as_q4_0(scheme: str, payload: Bytes) -> Bytes:
    """d times (code - zero) becomes d times (code + 8 - zero - 8)."""
    blocks = payload.reshape(-1, get_scheme(scheme).block_bytes)
    if scheme == "TQ1_0":
        d, codes = blocks[:, 52:], trits(blocks) + np.uint8(7)
    elif scheme == "TQ2_0":
        d, codes = blocks[:, 64:], two_bits(blocks[:, :64]) + np.uint8(7)
    elif scheme == "Q1_0":
        d, codes = blocks[:, :2], 2 * bits(blocks[:, 2:]) + np.uint8(7)
    else:
        d, codes = blocks[:, :2], codes_of_two_bits(blocks[:, 2:]) + np.uint8(7)
    halves = codes.reshape(-1, 2, 16)
    packed = halves[:, 0] | halves[:, 1] << np.uint8(4)
    return np.concatenate((np.repeat(d, len(packed) // len(blocks), axis=0), packed), axis=1)


def _as_q8_0(_: str, payload: Bytes) -> Bytes:
    blocks = payload.reshape(-1, 36)
    return np.concatenate((blocks[:, :2], blocks[:, 4:]), axis=1)


def _as_int8(scheme: str, payload: Bytes) -> Bytes:
    """The float16 times what 32 elements share is the scale; what is left of each number is its integer.

    The integers come from dequantizing with a float16 of 1, so that signs and codebooks are read in one place only.
    """
    blocks = payload.reshape(-1, get_scheme(scheme).block_bytes)
    d = np.ascontiguousarray(blocks[:, :2]).view("<f2").astype(np.float32)
    plain = blocks.copy()
    plain[:, :2] = (0x00, 0x3C)  # a float16 of 1
    values = dequantize_rows(scheme, plain).reshape(-1, 32)
    scales = _common_scale(scheme, blocks)
    integers = (values / scales).astype(np.int16)
    zeros = np.full((len(values), 1), 128, np.uint8)
    with np.errstate(over="ignore", invalid="ignore"):
        steps = (np.repeat(d, 8, axis=0) * scales).astype("<f4")
    return np.concatenate((steps.view(np.uint8), zeros, (integers + 128).astype(np.uint8)), axis=1)


def _common_scale(scheme: str, blocks: Bytes) -> Floats:
    """What 32 elements share but for the float16: an odd number times the smallest step. [N * 8, 1]."""
    if scheme == "IQ3_S":
        packed = blocks[:, 106:110]
        odd = 2 * np.stack((packed & 15, packed >> 4), axis=2).reshape(-1, 1) + 1
        return odd.astype(np.float32)
    if scheme == "IQ1_S":
        odd = 2 * (np.ascontiguousarray(blocks[:, 34:50]).view("<u2") >> 12 & 7) + 1
    else:
        fours = np.ascontiguousarray(blocks[:, 66:98] if scheme == "IQ3_XXS" else blocks[:, 2:66]).view("<u4")
        odd = 2 * ((fours if scheme == "IQ3_XXS" else fours[:, 1::2]) >> 28) + 1
    return odd.reshape(-1, 1).astype(np.float32) * _SMALLEST_STEP[scheme]


def _as_bf16(scheme: str, payload: Bytes) -> Bytes:
    return (dequantize_rows(scheme, payload).view(np.uint32) >> 16).astype("<u2").view(np.uint8)


def _as_f32(scheme: str, payload: Bytes) -> Bytes:
    return dequantize_rows(scheme, payload).astype("<f4").view(np.uint8)


TARGETS: dict[str, tuple[str, Callable[[str, Bytes], Bytes]]] = {
    "TQ1_0": ("Q4_0", _as_q4_0),
    "TQ2_0": ("Q4_0", _as_q4_0),
    "Q1_0": ("Q4_0", _as_q4_0),
    "Q2_0": ("Q4_0", _as_q4_0),
    "Q8_1": ("Q8_0", _as_q8_0),
    "IQ1_S": ("INT8_G32", _as_int8),
    "IQ2_XXS": ("INT8_G32", _as_int8),
    "IQ3_XXS": ("INT8_G32", _as_int8),
    "IQ3_S": ("INT8_G32", _as_int8),
    "NVFP4": ("BF16", _as_bf16),
    "NVFP4_SCALED": ("F32", _as_f32),
    "IQ1_M": ("F32", _as_f32),
    "IQ2_XS": ("F32", _as_f32),
    "IQ2_S": ("F32", _as_f32),
    "Q8_K": ("F32", _as_f32),
    "F64": ("F32", _as_f32),
}
"""What each expanded scheme becomes."""
