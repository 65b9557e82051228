"""Dense numbers from one float type to another, and whether that keeps them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt

from pelton.checkpoint.dequantize import dequantize_rows
from pelton.checkpoint.scheme import DENSE, row_bytes
from pelton.checkpoint.weight import Bytes, Tensor
from pelton.errors import CheckpointError

Floats = npt.NDArray[np.float32]

CHUNK_BYTES: Final = 8 << 20


def encode_dense(numbers: Floats, scheme: str) -> Bytes:
    """[rows, n] float32 as rows of F32, F16 or BF16, rounded to nearest even. Infinities and NaNs stay."""
    if scheme == "F32":
        return np.ascontiguousarray(numbers, np.float32).view(np.uint8)
    if scheme == "F16":
        with np.errstate(over="ignore"):
            return numbers.astype("<f2").view(np.uint8)
    if scheme != "BF16":
        raise CheckpointError(f"{scheme} is no dense type of numbers; expected one of {', '.join(sorted(DENSE))}.")
    bits = np.ascontiguousarray(numbers).view(np.uint32)
    rounded = bits + (np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1)))
    kept = np.where(np.isnan(numbers), bits | np.uint32(0x400000), rounded)
    return (kept >> np.uint32(16)).astype("<u2").view(np.uint8)


def as_dense(tensor: Tensor, scheme: str) -> Tensor:
    """The tensor's numbers as a dense scheme. Costs the result, and a few MiB.

    Raises CheckpointError for a number that F16 has none for: infinity in its place would be another model.
    """
    if tensor.scheme == scheme:
        return tensor
    rows = tensor.payload
    made = np.empty((len(rows), row_bytes(scheme, tensor.shape[-1] if tensor.shape else 1)), np.uint8)
    for begin, end in chunks(len(rows), made.shape[1]):
        numbers = dequantize_rows(tensor.scheme, rows[begin:end])
        made[begin:end] = encode_dense(numbers, scheme)
        if scheme == "F16":
            _check_range(tensor.name, numbers, made[begin:end])
    return Tensor(tensor.name, tensor.shape, scheme, made)


def _check_range(name: str, numbers: Floats, made: Bytes) -> None:
    overflown = np.isinf(made.view("<f2")) & np.isfinite(numbers)
    if overflown.any():
        raise CheckpointError(f"{name}: holds {numbers[overflown][0]:g}, and F16 ends at 65504. Use bf16 or f32.")


def chunks(num_rows: int, num_bytes: int) -> Iterator[tuple[int, int]]:
    """Rows of `num_bytes` each, some MiB at a time: [begin, end)."""
    step = max(1, CHUNK_BYTES // max(1, num_bytes))
    for begin in range(0, num_rows, step):
        yield begin, min(num_rows, begin + step)


def has_numbers(tensor: Tensor, other: Tensor) -> bool:
    """Whether both tensors hold the same numbers in the same order, bit for bit, whatever holds them."""
    ours, theirs = tensor.payload, other.payload
    if tensor.shape != other.shape or len(ours) != len(theirs):
        return False
    for begin, end in chunks(len(ours), 4 * (tensor.shape[-1] if tensor.shape else 1)):
        a = dequantize_rows(tensor.scheme, ours[begin:end]).view(np.uint32)
        if not np.array_equal(a, dequantize_rows(other.scheme, theirs[begin:end]).view(np.uint32)):
            return False
    return True


def is_exact(tensor: Tensor, scheme: str) -> bool:
    """Whether `as_dense` keeps every number, bit for bit. Ends at the first that it does not keep."""
    rows = tensor.payload
    for begin, end in chunks(len(rows), 4 * (tensor.shape[-1] if tensor.shape else 1)):
        numbers = dequantize_rows(tensor.scheme, rows[begin:end])
        kept = dequantize_rows(scheme, encode_dense(numbers, scheme))
        if not np.array_equal(numbers.view(np.uint32), kept.view(np.uint32)):
            return False
    return True
