"""float32 -> the blocks of GGUF, in numpy: scales are searched for, so that the weighted squared error is least.

Each function takes [N, block_size] numbers and, for each of them, a weight of its error; it gives [N, block_bytes]
bytes that `dequantize` reads. A scale is tried in steps around the one that just spans the block; for each, integers
are rounded and the best factor follows by least squares. Equal input gives equal bytes. Q8_0 is ggml's, to the bit.
Cost: some twenty passes over the numbers, 3 to 20 million elements a second on one thread. Source: the block
definitions of ggml; least squares of a scale (and a minimum) as in the literature on uniform quantizers (Max 1960).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt

from pelton.checkpoint.scheme import get_scheme, row_bytes
from pelton.errors import CheckpointError

Bytes = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]

_STEPS: Final = np.linspace(-1.0, 1.0, 21, dtype=np.float32)
_TINY: Final = np.float32(1e-30)
_CHUNK: Final = 1 << 14  # blocks at a time


def quantize_rows(scheme: str, rows: Floats, importance: Floats | None = None) -> Bytes:
    """[rows, n] numbers as [rows, row_bytes]. `importance` [n]: how much an error in each column counts; None: alike.

    Raises CheckpointError for a scheme that is not made here, rows that do not fill blocks, and what is no number.
    """
    if scheme not in MADE:
        raise CheckpointError(f"{scheme} blocks cannot be made here. Known: {', '.join(MADE)}.")
    known = get_scheme(scheme)
    length = row_bytes(scheme, rows.shape[1])
    if not np.isfinite(rows).all():
        raise CheckpointError("A tensor has entries that are not finite, which no block can hold.")
    blocks = np.ascontiguousarray(rows, np.float32).reshape(-1, known.block_size)
    if importance is None:
        weights = np.ones((1, known.block_size), np.float32)
        repeat = 1
    else:
        weights = np.ascontiguousarray(importance, np.float32).reshape(-1, known.block_size)
        repeat = len(weights)
    made = np.empty((len(blocks), known.block_bytes), np.uint8)
    for begin in range(0, len(blocks), _CHUNK):
        some = blocks[begin : begin + _CHUNK]
        index = (begin + np.arange(len(some))) % repeat
        made[begin : begin + len(some)] = MADE[scheme](some, np.maximum(weights[index], _TINY))
    return made.reshape(len(rows), length)


def _half(numbers: Floats) -> Bytes:
    """[N] as float16 bytes [N, 2]."""
    return numbers.astype("<f2")[:, None].view(np.uint8)


def _inverse(numbers: Floats) -> Floats:
    return np.divide(1.0, numbers, out=np.zeros_like(numbers), where=numbers != 0)


def _round(numbers: Floats) -> Floats:
    """To the nearest whole number, halves away from zero, as C does."""
    return np.trunc(numbers + np.copysign(np.float32(0.5), numbers))


def _q8_0(x: Floats, weights: Floats) -> Bytes:
    """The largest magnitude becomes 127."""
    d = np.abs(x).max(1) / np.float32(127)
    quants = _round(x * _inverse(d)[:, None]).astype(np.int8)
    return np.concatenate((_half(d), quants.view(np.uint8)), axis=1)


def _search_scale(x: Floats, weights: Floats, low: int, high: int) -> tuple[Floats, Floats]:
    """The best d [N] for x = d * q with q from `low` to `high`, and the q [N, n]: the extreme value gets `low`."""
    rows = np.arange(len(x))
    extreme = x[rows, np.abs(x).argmax(1)]
    best_d, best_q = np.zeros(len(x), np.float32), np.zeros_like(x)
    best = np.full(len(x), -1.0, np.float32)
    for step in _STEPS:
        inverse = (np.float32(low) + step) * _inverse(extreme)
        q = np.clip(np.rint(x * inverse[:, None]), low, high)
        cross, square = (weights * x * q).sum(1), (weights * q * q).sum(1)
        gain = np.divide(cross * cross, square, out=np.zeros_like(cross), where=square > 0)
        better = gain > best
        best[better] = gain[better]
        best_q[better] = q[better]
        best_d[better] = np.divide(cross, square, out=np.zeros_like(cross), where=square > 0)[better]
    return best_d, best_q


def _q4_0(x: Floats, weights: Floats) -> Bytes:
    d, _ = _search_scale(x, weights, -8, 7)
    d = d.astype(np.float16).astype(np.float32)
    quants = (np.clip(np.rint(x * _inverse(d)[:, None]), -8, 7) + 8).astype(np.uint8)
    return np.concatenate((_half(d), quants[:, :16] | quants[:, 16:] << 4), axis=1)


def _q6_k(x: Floats, weights: Floats) -> Bytes:
    """Sixteen scales of 8 bits, each for sixteen values from -32 to 31, in units of one half float."""
    groups, group_weights = x.reshape(-1, 16), weights.reshape(-1, 16)
    scales = _search_scale(groups, group_weights, -32, 31)[0].reshape(-1, 16)
    extreme = scales[np.arange(len(scales)), np.abs(scales).argmax(1)]
    d = (extreme / np.float32(-128)).astype(np.float16).astype(np.float32)
    units = np.clip(np.rint(scales * _inverse(d)[:, None]), -128, 127)
    steps = (units * d[:, None]).reshape(-1, 1)
    quants = (np.clip(np.rint(groups * _inverse(steps)), -32, 31) + 32).astype(np.uint8).reshape(-1, 2, 128)
    low = quants[:, :, :64] & 15 | (quants[:, :, 64:] & 15) << 4
    high = np.zeros((len(quants), 2, 32), np.uint8)
    for run in range(4):
        high |= (quants[:, :, 32 * run : 32 * run + 32] >> 4) << np.uint8(2 * run)
    parts = (low.reshape(-1, 128), high.reshape(-1, 64), units.astype(np.int8).view(np.uint8), _half(d))
    return np.concatenate(parts, axis=1)


def _search_scale_and_minimum(x: Floats, weights: Floats, high: int) -> tuple[Floats, Floats]:
    """The best s and m, neither below zero, for x = s * q - m with q from 0 to `high`."""
    least, most = np.minimum(x.min(1), 0), x.max(1)
    span = np.maximum(most - least, 0)
    best_s, best_m = span / np.float32(high), -least
    q = np.clip(np.rint((x - least[:, None]) * _inverse(best_s)[:, None]), 0, high)
    best = (weights * np.square(best_s[:, None] * q - best_m[:, None] - x)).sum(1)
    total, sum_x = weights.sum(1), (weights * x).sum(1)
    for step in _STEPS:
        inverse = (np.float32(high) + step) * _inverse(span)
        q = np.clip(np.rint((x - least[:, None]) * inverse[:, None]), 0, high)
        sum_q, sum_qq, sum_xq = (weights * q).sum(1), (weights * q * q).sum(1), (weights * x * q).sum(1)
        determinant = total * sum_qq - sum_q * sum_q
        good = determinant > 0
        safe = np.where(good, determinant, 1)
        s = (total * sum_xq - sum_x * sum_q) / safe
        m = -(sum_qq * sum_x - sum_q * sum_xq) / safe
        below = m < 0
        s = np.where(below, np.divide(sum_xq, sum_qq, out=np.zeros_like(s), where=sum_qq > 0), s)
        m = np.where(below, 0, m)
        error = (weights * np.square(s[:, None] * q - m[:, None] - x)).sum(1)
        better = good & (error < best) & (s >= 0)
        best = np.where(better, error, best)
        best_s, best_m = np.where(better, s, best_s), np.where(better, m, best_m)
    return best_s.astype(np.float32), best_m.astype(np.float32)


def _q4_k(x: Floats, weights: Floats) -> Bytes:
    """Eight scales and eight minimums of 6 bits, each for 32 values from 0 to 15, in units of two half floats."""
    groups, group_weights = x.reshape(-1, 32), weights.reshape(-1, 32)
    scales, minimums = (each.reshape(-1, 8) for each in _search_scale_and_minimum(groups, group_weights, 15))
    units: list[npt.NDArray[np.uint8]] = []
    halves: list[Floats] = []
    for each in (scales, minimums):
        d = (each.max(1) / np.float32(63)).astype(np.float16).astype(np.float32)
        units.append(np.clip(np.rint(each * _inverse(d)[:, None]), 0, 63).astype(np.uint8))
        halves.append(d)
    steps = (units[0] * halves[0][:, None]).reshape(-1, 1)
    offsets = (units[1] * halves[1][:, None]).reshape(-1, 1)
    quants = np.clip(np.rint((groups + offsets) * _inverse(steps)), 0, 15).astype(np.uint8).reshape(-1, 4, 2, 32)
    packed = (quants[:, :, 0] | quants[:, :, 1] << 4).reshape(-1, 128)
    return np.concatenate((_half(halves[0]), _half(halves[1]), _pack_six_bits(*units), packed), axis=1)


def _pack_six_bits(scales: Bytes, minimums: Bytes) -> Bytes:
    """Two times eight numbers of 6 bits in twelve bytes, as `dequantize` takes them apart."""
    first = scales[:, :4] | (scales[:, 4:] >> 4) << 6
    second = minimums[:, :4] | (minimums[:, 4:] >> 4) << 6
    third = scales[:, 4:] & 15 | (minimums[:, 4:] & 15) << 4
    return np.concatenate((first, second, third), axis=1)


MADE: Final[dict[str, Callable[[Floats, Floats], Bytes]]] = {
    "Q8_0": _q8_0,
    "Q4_0": _q4_0,
    "Q4_K": _q4_k,
    "Q6_K": _q6_k,
}
