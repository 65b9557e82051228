"""A GGUF array of strings, found in one walk over the file and decoded only when asked for.

Each string stands behind its own 64-bit length, so where one begins is known only after the one before: a vocabulary of
262,144 tokens is a walk of as many dependent steps. The walk reads one byte of each length and a vector check proves
afterwards that the other seven were zero: 0.02 s for that vocabulary, against 0.15 s with a whole length each.
Invariant: every string lies inside the file before any of them is offered.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import final, overload

import numpy as np
import numpy.typing as npt

from pelton.errors import CheckpointError

_LENGTH_BYTES = 8
_LONGEST_RUN = 1 << 16
_SHORTEST_RUN = 16


@final
class StringArray(Sequence[str]):
    """Strings of a mapped file by index. Bytes that are not UTF-8 decode to U+FFFD, see `raw`."""

    def __init__(self, data: memoryview, starts: npt.NDArray[np.int64], end: int) -> None:
        self._data = data
        self._starts = starts
        self.end = end  # offset of the first byte behind the array

    def __len__(self) -> int:
        return len(self._starts)

    def raw(self, index: int) -> bytes:
        """The bytes of one string, as the file has them."""
        start = int(self._starts[index])
        length = int.from_bytes(self._data[start : start + _LENGTH_BYTES], "little")
        return bytes(self._data[start + _LENGTH_BYTES : start + _LENGTH_BYTES + length])

    @property
    def stored(self) -> bytes:
        """All strings behind their lengths, as the file has them."""
        return bytes(self._data[int(self._starts[0]) : self.end]) if len(self) else b""

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        return self.raw(index).decode("utf-8", "replace")

    def __iter__(self) -> Iterator[str]:
        data = self._data
        starts = self._starts.tolist()
        ends = [*starts, self.end][1:]
        for start, end in zip(starts, ends, strict=True):
            yield str(data[start + _LENGTH_BYTES : end], "utf-8", "replace")


def walk(data: memoryview, offset: int, count: int, *, where: str) -> StringArray:
    """The `count` strings from `offset`. Raises CheckpointError where one reaches past the end of `data`."""
    if count * _LENGTH_BYTES > len(data) - offset:
        raise CheckpointError(
            f"{where}: claims {count} strings, more than the {len(data) - offset} bytes left can hold."
        )
    all_bytes = np.frombuffer(data, dtype=np.uint8)
    starts = np.empty(count, dtype=np.int64)
    done, run = 0, _LONGEST_RUN
    while done < count:
        wanted = min(run, count - done)
        positions = _guess(data, offset, wanted)
        num_good = _count_short(all_bytes, positions)
        starts[done : done + num_good] = positions[:num_good]
        if num_good:
            last = positions[num_good - 1]
            offset = last + _LENGTH_BYTES + data[last]
        done += num_good
        if num_good < wanted:  # the next string is long, or runs out of the file
            starts[done] = offset
            offset = _skip_one(data, offset, index=done, where=where)
            done += 1
            run = _SHORTEST_RUN  # a file of long strings must not make every guess in vain
        else:
            run = min(2 * run, _LONGEST_RUN)
    return StringArray(data, starts, offset)


def _guess(data: memoryview, offset: int, count: int) -> list[int]:
    """Where up to `count` strings begin if each is shorter than 256 bytes; fewer at the end of the file."""
    positions: list[int] = []
    append = positions.append
    try:
        for _ in range(count):
            append(offset)
            offset += data[offset] + _LENGTH_BYTES
    except IndexError:
        positions.pop()
    return positions


def _count_short(all_bytes: npt.NDArray[np.uint8], positions: list[int]) -> int:
    """How many of the guesses hold: whole length inside the file, its seven upper bytes zero, the text inside too."""
    starts = np.array(positions, dtype=np.int64)
    size = all_bytes.size
    starts = starts[starts <= size - _LENGTH_BYTES]
    upper = all_bytes[starts[:, None] + np.arange(1, _LENGTH_BYTES)]
    good = (upper == 0).all(axis=1) & (starts + _LENGTH_BYTES + all_bytes[starts] <= size)
    return len(starts) if good.all() else int(np.argmin(good))


def _skip_one(data: memoryview, offset: int, *, index: int, where: str) -> int:
    """The offset behind the string at `offset`, whatever its length."""
    left = len(data) - offset - _LENGTH_BYTES
    if left < 0:
        raise CheckpointError(f"{where}: the file ends at string {index}. It is truncated; fetch it again.")
    length = int.from_bytes(data[offset : offset + _LENGTH_BYTES], "little")
    if length > left:
        raise CheckpointError(f"{where}: string {index} claims {length} bytes and only {left} are left in the file.")
    return offset + _LENGTH_BYTES + length
