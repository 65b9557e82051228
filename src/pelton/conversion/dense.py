"""Dense numbers from one float type to another, and whether that keeps them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pelton.checkpoint.dequantize import dequantize, dequantize_rows
from pelton.checkpoint.scheme import DENSE
from pelton.checkpoint.weight import Bytes, Tensor
from pelton.errors import CheckpointError

Floats = npt.NDArray[np.float32]


def encode_dense(numbers: Floats, scheme: str) -> Bytes:
    """[rows, n] float32 as rows of F32, F16 or BF16, rounded to nearest even. Infinities and NaNs stay what they are."""
    if scheme == "F32":
        return np.ascontiguousarray(numbers).view(np.uint8)
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
    """The tensor's numbers as a dense scheme. Costs float32 copies of it."""
    if tensor.scheme == scheme:
        return tensor
    numbers = dequantize_rows(tensor.scheme, tensor.payload)
    return Tensor(tensor.name, tensor.shape, scheme, encode_dense(numbers, scheme))


def is_exact(tensor: Tensor, scheme: str) -> bool:
    """Whether `as_dense` keeps every number, bit for bit."""
    numbers = dequantize(tensor).reshape(-1)
    back = dequantize_rows(scheme, encode_dense(numbers[None, :], scheme)).reshape(-1)
    return bool(np.array_equal(numbers.view(np.uint32), back.view(np.uint32)))
