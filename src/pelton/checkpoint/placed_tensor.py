"""A tensor and where its bytes are in a mapped file, for formats whose headers say so: safetensors and PyTorch.

Most tensors are rows of the file as they lie. PyTorch stores views too, a transposed matrix for example: those have
strides, and their rows are put in order when somebody asks for them, so that opening a file moves nothing. Where a
format has checksums, the record of a tensor is checked when its bytes are first asked for, once: a program that
finds its weights packed from an earlier start reads none of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pelton.checkpoint.contract import TensorInfo
from pelton.checkpoint.mapped_file import Bytes, MappedFile
from pelton.checkpoint.scheme import get_scheme, row_bytes
from pelton.checkpoint.weight import Conversion


@dataclass(slots=True)
class Record:
    """A stretch of a file that several tensors may lie in. `check` raises CheckpointError if it is damaged."""

    offset: int
    nbytes: int
    check: Callable[[], None]
    is_checked: bool = False

    def check_once(self) -> None:
        """Compare with the checksum, unless that was done."""
        if not self.is_checked:
            self.check()
            self.is_checked = True


@dataclass(frozen=True, slots=True)
class PlacedTensor:
    """`strides` in elements, or None where the tensor is row-major and without gaps."""

    info: TensorInfo
    file: MappedFile
    offset: int
    strides: tuple[int, ...] | None = None
    record: Record | None = None

    def rows(self) -> Bytes | Conversion:
        """[rows, row_bytes]: a view where nothing is to be done, else rows that are checked or ordered when made."""
        if self.strides is None and self.record is None:
            return self._plain()
        recipe = "checked" if self.strides is None else f"strides {list(self.strides)} of {list(self.info.shape)}"
        return Conversion((self._source(),), recipe, self._make, self._make_rows)

    def flat(self) -> Bytes:
        """All bytes of the row-major tensor as one row: a view where the file has them in order.

        Raises CheckpointError for damaged bytes, as making `rows` does.
        """
        return self._make().reshape(1, -1)

    def _plain(self) -> Bytes:
        shape = self.info.shape
        return self.file.rows(self.offset, math.prod(shape[:-1]), row_bytes(self.info.scheme, _last(shape)))

    def _source(self) -> Bytes:
        """The stretch of the file that the elements lie in."""
        if self.strides is None:
            return self._plain()
        itemsize = get_scheme(self.info.scheme).block_bytes
        return self.file.rows(self.offset, 1, count_span(self.info.shape, self.strides) * itemsize)

    def _make(self) -> Bytes:
        return self._make_rows(0, math.prod(self.info.shape[:-1]))

    def _make_rows(self, begin: int, end: int) -> Bytes:
        if self.record is not None:
            self.record.check_once()
        if self.strides is None:
            return self._plain()[begin:end]
        itemsize = get_scheme(self.info.scheme).block_bytes
        return gather_rows(self._source(), self.info.shape, self.strides, itemsize, begin, end)


def gather_rows(
    source: Bytes, shape: Sequence[int], strides: Sequence[int], itemsize: int, begin: int, end: int
) -> Bytes:
    """Rows [begin, end) of a strided tensor in row-major order, as bytes of a fresh array.

    Of more than two axes, rows that cut the first axis elsewhere than between its elements cost the whole tensor.
    """
    byte_strides = [stride * itemsize for stride in strides]
    view: npt.NDArray[Any] = np.ndarray(tuple(shape), f"<u{itemsize}", buffer=source.data, strides=byte_strides)
    inner = math.prod(shape[1:-1])
    if len(shape) > 1 and begin % inner == 0 and end % inner == 0:
        view, begin, end = view[begin // inner : end // inner], 0, end - begin
    rows = np.ascontiguousarray(view).reshape(-1).view(np.uint8)
    return rows.reshape(-1, _last(shape) * itemsize)[begin:end]


def _last(shape: Sequence[int]) -> int:
    return shape[-1] if shape else 1


def count_span(shape: Sequence[int], strides: Sequence[int]) -> int:
    """Elements from the first to behind the last one of a strided tensor, in integers that cannot overflow.

    >>> count_span([2, 3], [1, 2]), count_span([0, 3], [3, 1]), count_span([], [])
    (6, 0, 1)
    """
    if 0 in shape:
        return 0
    return 1 + sum((length - 1) * stride for length, stride in zip(shape, strides, strict=True))


def is_row_major(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether the strides are those of a tensor without gaps; axes of one element may have any.

    >>> is_row_major([2, 1, 3], [3, 99, 1]), is_row_major([2, 3], [1, 2]), is_row_major([2, 0], [7, 7])
    (True, False, True)
    """
    expected = 1
    for length, stride in zip(reversed(shape), reversed(strides), strict=True):
        if length not in (0, 1) and stride != expected and 0 not in shape:
            return False
        expected *= length
    return True
