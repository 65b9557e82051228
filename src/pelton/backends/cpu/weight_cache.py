"""Packed weights kept between starts: a folder of weight files, found by a key, the one used longest ago leaving first.

Invariant: an entry is used for exactly the file state it was packed from (docs/decisions/0007-weight-cache.md), and
appears under its name only when it is complete. Nothing here stops an engine from starting: what cannot be read is
packed again, what cannot be written is a warning. Entries are written by a thread of low priority after the engine is
ready, by one process at a time. The folder belongs to the user alone, or it is not used: weights decide what is said.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import final

import numpy as np
import numpy.typing as npt

from pelton.backends.cpu.weight_file import (
    Damaged,
    Header,
    Source,
    check_bytes,
    compute_checksums,
    read_header,
    read_into,
    write_file,
)
from pelton.checkpoint.file_hash import compute_sha256
from pelton.checkpoint.mapped_file import Identity, MappedFile
from pelton.observability.log import Log

Bytes = npt.NDArray[np.uint8]
log = Log("weights")

SUFFIX = ".packed"
TEMPORARY = "writing-"
MIN_BYTES = 64 << 20  # smaller weights are packed as fast as they are read
SPARE_DISK_BYTES = 256 << 20
EXIT_GRACE_S = 3.0  # how long a program that ends waits for its entry; less than a server waits for its engine


class Abandoned(Exception):
    """The program ends, and does not wait any longer for what is being written."""


@final
class WeightCache:
    """The entries of `folder` for one checkpoint, made of `files`; all entries together take at most `max_bytes`."""

    def __init__(
        self, folder: Path, max_bytes: int, files: Sequence[MappedFile], *, min_bytes: int = MIN_BYTES
    ) -> None:
        self._folder = folder
        self._max_bytes = max_bytes
        self._min_bytes = min_bytes
        self.files = tuple(files)
        # A file written a moment ago may be written again without a visible change of its times.
        self._is_trusted = bool(files) and all(file.identity.is_settled(file.opened_ns) for file in files)
        self._writer: threading.Thread | None = None

    def load(self, key: str, memory: Bytes, num_threads: int, on_fraction: Callable[[float], None]) -> bool:
        """Fill `memory` from the entry of `key`. False if there is none that can be used: `memory` holds anything."""
        if not self._is_wanted(memory.size) or not self._is_safe():
            return False
        path = self._path(key)
        try:
            with open_entry(path) as descriptor:
                header, _ = read_header(descriptor)
                if header.key != key:
                    raise Damaged("it is of other weights")
                read_into(descriptor, memory, num_threads, on_fraction)
        except FileNotFoundError:
            return False
        except (Damaged, OSError) as error:
            log.warning("packed weights cannot be used and are packed again", file=path, why=error)
            if isinstance(error, Damaged):
                with contextlib.suppress(OSError):
                    path.unlink()
            return False
        with contextlib.suppress(OSError):
            os.utime(path)  # the time of last use: what leaves first is decided by it
        return True

    def store(self, key: str, memory: Bytes) -> None:
        """Begin to write `memory`, which must not change any more, as the entry of `key`. Does not wait."""
        if not self._is_wanted(memory.size) or not self._is_safe(is_made=True):
            return
        self._writer = threading.Thread(target=self._write, args=(key, memory), name="write-weights", daemon=False)
        self._writer.start()

    def wait(self) -> None:
        """Until what `store` began is done."""
        if self._writer is not None:
            self._writer.join()

    def _path(self, key: str) -> Path:
        return self._folder / f"{key[:32]}{SUFFIX}"

    def _is_wanted(self, num_bytes: int) -> bool:
        return self._is_trusted and self._min_bytes <= num_bytes <= self._max_bytes

    def _is_safe(self, *, is_made: bool = False) -> bool:
        """Whether nobody else can write to the folder, which is made if need be."""
        try:
            if is_made:
                self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            status = self._folder.stat()
        except FileNotFoundError:
            return False
        except OSError as error:
            log.warning("packed weights cannot be kept", folder=self._folder, why=error.strerror)
            return False
        if not is_own(status):
            log.warning(
                "packed weights are not kept: the folder must belong to this user and be writable by nobody else",
                folder=self._folder,
            )
            return False
        return True

    def _write(self, key: str, memory: Bytes) -> None:
        """What the thread of `store` does."""
        if sys.platform == "linux":
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 19)  # of this thread: decoding goes first
        try:
            with hold_lock(self._folder) as is_held:
                if is_held:
                    self._write_alone(key, memory, Deadline().check)
        except Abandoned:
            log.info("packed weights are not kept: the program ends before they are written", folder=self._folder)
        except OSError as error:
            log.warning("packed weights could not be kept", folder=self._folder, why=error.strerror)

    def _write_alone(self, key: str, memory: Bytes, check: Callable[[], None]) -> None:
        for left_over in self._folder.glob(f"{TEMPORARY}*"):  # of a process that was killed: nobody else writes
            left_over.unlink(missing_ok=True)
        evict(self._folder, self._max_bytes - memory.size)
        if shutil.disk_usage(self._folder).free < memory.size + SPARE_DISK_BYTES:
            log.warning("packed weights are not kept: the disk is nearly full", folder=self._folder)
            return
        sources = tuple(Source(str(file.path), file.identity, compute_sha256(file.path, check)) for file in self.files)
        header = Header(key, sources, memory.size, compute_checksums(memory, check))
        descriptor, name = tempfile.mkstemp(prefix=TEMPORARY, dir=self._folder)
        try:
            try:
                write_file(descriptor, header, memory, check)
            finally:
                os.close(descriptor)
            if all(Identity.of(file.path.stat()) == file.identity for file in self.files):
                os.replace(name, self._path(key))
        finally:
            Path(name).unlink(missing_ok=True)


@final
class Deadline:
    """Some seconds after the main thread has ended; Python waits for all other threads then."""

    def __init__(self, main: threading.Thread | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._main = main or threading.main_thread()
        self._clock = clock
        self._end_s: float | None = None

    def check(self) -> None:
        """Raise Abandoned once it is over. Called often."""
        if self._end_s is None and not self._main.is_alive():
            self._end_s = self._clock() + EXIT_GRACE_S
        if self._end_s is not None and self._clock() > self._end_s:
            raise Abandoned


def is_own(status: os.stat_result) -> bool:
    """Whether a file or folder belongs to this user and only they can write to it."""
    return status.st_uid == os.geteuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


@contextlib.contextmanager
def open_entry(path: Path) -> Iterator[int]:
    """A descriptor of a regular file that belongs to this user alone. Raises OSError or Damaged."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or not is_own(status):
            raise Damaged("it is not a file of this user alone")
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def hold_lock(folder: Path) -> Iterator[bool]:
    """Whether this process alone may change the folder. Does not wait: who holds the lock is writing."""
    descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(descriptor)


def evict(folder: Path, max_bytes: int) -> list[Path]:
    """Remove the entries that were used longest ago until the others take at most `max_bytes`; what was removed."""
    found = sorted(((path.stat(), path) for path in folder.glob(f"*{SUFFIX}")), key=lambda entry: entry[0].st_mtime_ns)
    total_bytes = sum(status.st_size for status, _ in found)
    removed = []
    for status, path in found:
        if total_bytes <= max_bytes:
            break
        path.unlink(missing_ok=True)
        total_bytes -= status.st_size
        removed.append(path)
    return removed


def check_folder(folder: Path) -> Iterator[tuple[Path, str, str | None]]:
    """For `pelton models verify`: each entry, the model it is of, and what is wrong with it, if anything.

    Reads every entry and every model file that is still there, and removes nothing.
    """
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        model = "unknown"
        try:
            with open_entry(path) as descriptor:
                header = check_bytes(descriptor)
            model = ", ".join(source.path for source in header.sources)
            problem = next(filter(None, map(find_change, header.sources)), None)
        except (Damaged, OSError) as error:
            problem = str(error)
        yield path, model, problem


def find_change(source: Source) -> str | None:
    """What is wrong with a file of the checkpoint that the key takes for the one that was packed."""
    path = Path(source.path)
    if not path.exists() or Identity.of(path.stat()) != source.identity:
        return None  # its entry is not used any more, and leaves in time
    return None if compute_sha256(path) == source.sha256 else f"{path} has other bytes than those that were packed"
