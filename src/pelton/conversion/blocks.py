"""Groups of integers, as GPTQ, AWQ and compressed-tensors have them, in blocks of a GGUF: where that is exact.

Q4_0 and Q8_0 have a float16 scale and no zero point, so they hold symmetric groups whose scales are float16, which
those of GPTQ are. Their integers lie in the same order. All else becomes float32.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt

from pelton.checkpoint.scheme import get_scheme, row_bytes
from pelton.checkpoint.weight import Bytes, Tensor
from pelton.conversion.dense import chunks

_TARGETS: Final = {
    "INT4_G32": ("Q4_0", 8),
    "INT4_G128": ("Q4_0", 8),
    "INT8_G32": ("Q8_0", 128),
    "INT8_G128": ("Q8_0", 128),
}
_ELEMENTS: Final = 32  # of a block of either target


def find_blocks(tensor: Tensor) -> str | None:
    """The scheme of a GGUF that holds the tensor's numbers exactly, or None. Reads all of it if it may."""
    if tensor.scheme not in _TARGETS:
        return None
    target, middle = _TARGETS[tensor.scheme]
    for groups in _take_groups(tensor):
        scales, halves = _scales(groups)
        is_exact = np.array_equal(halves.astype(np.float32).view(np.uint32), scales.view(np.uint32))
        if not is_exact or not (groups[:, 4] == middle).all():
            return None
    return target


def as_blocks(tensor: Tensor) -> Bytes:
    """Rows of the scheme that `find_blocks` gives."""
    target, _ = _TARGETS[tensor.scheme]
    made = np.empty((len(tensor.payload), row_bytes(target, tensor.shape[-1])), np.uint8)
    flat = made.reshape(-1, get_scheme(target).block_bytes)
    begin = 0
    for groups in _take_groups(tensor):
        _, halves = _scales(groups)
        per_group = get_scheme(tensor.scheme).block_size // _ELEMENTS
        integers = groups[:, 5:].reshape(len(groups) * per_group, -1)
        blocks = flat[begin : begin + len(integers)]
        blocks[:, :2] = np.repeat(halves.view(np.uint8).reshape(-1, 2), per_group, axis=0)
        blocks[:, 2:] = integers if target == "Q4_0" else integers ^ np.uint8(128)  # q - 128 as a signed byte
        begin += len(integers)
    return made


def _take_groups(tensor: Tensor) -> Iterator[Bytes]:
    """[groups, bytes], some MiB at a time."""
    rows = tensor.payload
    for begin, end in chunks(len(rows), rows.shape[1]):
        yield np.ascontiguousarray(rows[begin:end]).reshape(-1, get_scheme(tensor.scheme).block_bytes)


def _scales(groups: Bytes) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float16]]:
    """As they are, and rounded to float16."""
    scales = np.ascontiguousarray(groups[:, :4]).view("<f4").reshape(-1)
    with np.errstate(over="ignore"):
        return scales, scales.astype("<f2")
