"""A regular file, mapped read-only, whose size is known before anything of it is believed.

Invariant: no view reaches past the size the file had when it was opened. Views are never copies; they keep the
mapping alive after `close`, so a weight may outlive the reader. A file that somebody truncates while it is mapped
kills the process with SIGBUS, as with every mapped file: replace model files, do not rewrite them.
"""

from __future__ import annotations

import mmap
import os
import stat
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from pelton.errors import CheckpointError

Bytes = npt.NDArray[np.uint8]


SETTLED_NS = 2_000_000_000  # more than the coarsest clock of a file system that is in use


@dataclass(frozen=True, slots=True)
class Identity:
    """Which file this is, and which state of it: whatever writes to it changes the last two, or makes another file.

    A program can set the time of modification back, but not the time of the last change of status, which is kept too.
    """

    device: int
    inode: int
    size: int
    modified_ns: int
    changed_ns: int

    @staticmethod
    def of(status: os.stat_result) -> Identity:
        """From what the system says of a file."""
        return Identity(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)

    def is_settled(self, now_ns: int) -> bool:
        """Whether a write at `now_ns` would surely change the times: clocks of file systems tick up to 2 s apart."""
        return now_ns - max(self.modified_ns, self.changed_ns) > SETTLED_NS


class MappedFile:
    """A file as an array of bytes. Raises CheckpointError for what is missing, empty, or not a regular file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            # Without O_NONBLOCK, opening a named pipe would wait for its writer for ever.
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            raise CheckpointError(f"{path}: there is no such file.") from None
        except (OSError, ValueError) as error:
            raise CheckpointError(f"{path}: cannot be opened: {error}.") from None
        try:
            self._data: Bytes | None = self._map(descriptor)
        finally:
            os.close(descriptor)

    def _map(self, descriptor: int) -> Bytes:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise CheckpointError(f"{self.path}: is not a regular file. Give the path of a model file.")
        if status.st_size == 0:
            raise CheckpointError(f"{self.path}: is empty. The download was probably interrupted; fetch it again.")
        self.identity = Identity.of(status)
        self.opened_ns = time.time_ns()
        mapping = mmap.mmap(descriptor, status.st_size, access=mmap.ACCESS_READ)
        return np.frombuffer(mapping, dtype=np.uint8)

    @property
    def data(self) -> Bytes:
        """All bytes, read-only, mapped."""
        if self._data is None:
            raise CheckpointError(f"{self.path}: is closed. Open the checkpoint again to read from it.")
        return self._data

    @property
    def size(self) -> int:
        """Bytes in the file when it was opened."""
        return self.data.size

    def rows(self, offset: int, num_rows: int, row_bytes: int) -> Bytes:
        """A [num_rows, row_bytes] view from `offset`. The caller has checked that it lies inside the file."""
        end = offset + num_rows * row_bytes
        assert end <= self.size, "a tensor's bounds are checked when its file is opened"
        return self.data[offset:end].reshape(num_rows, row_bytes)

    def close(self) -> None:
        """Forget the mapping; it goes when the last view of it goes."""
        self._data = None
