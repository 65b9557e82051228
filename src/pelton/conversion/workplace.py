"""Where a target is made: beside its final name, so that nothing half done ever bears that name.

The disk is asked first. Whatever an interrupted conversion left behind is removed by the next one of the same name;
two at a time are told apart by a lock. The last act is a rename, after everything has reached the disk.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pelton.config.memory_rule import format_bytes
from pelton.errors import CheckpointError

SUFFIX = ".partial"


@contextmanager
def make_target(target: Path, nbytes: int, *, force: bool) -> Iterator[Path]:
    """A path to write to, which becomes `target` when the block ends without an error; else it is removed.

    Raises CheckpointError if the target is there and not `force`, somebody else makes it, or the disk is too small.
    """
    if target.exists() and not force:
        raise CheckpointError(f"{target}: is there already. Give another name, or --force to replace it.")
    parent = target.absolute().parent
    if not parent.is_dir():
        raise CheckpointError(f"{parent}: there is no such directory. Make it first.")
    part = parent / f".{target.name}{SUFFIX}"
    with _lock(parent / f".{target.name}.lock", target):
        _remove(part)
        free = shutil.disk_usage(parent).free
        if free < nbytes:
            raise CheckpointError(
                f"{target}: needs {format_bytes(nbytes)}, and its disk has {format_bytes(free)} free. Make room first."
            )
        try:
            yield part
            _sync(part)
            if target.exists():
                old = parent / f".{target.name}.old"
                _remove(old)
                target.rename(old)
                part.rename(target)
                _remove(old)
            else:
                part.rename(target)
            _sync_directory(parent)
        except OSError as error:
            raise CheckpointError(f"{target}: cannot be written: {error.strerror or error}.") from error
        finally:
            _remove(part)


@contextmanager
def _lock(path: Path, target: Path) -> Iterator[None]:
    try:
        descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise CheckpointError(f"{target}: cannot be written: {error.strerror}.") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise CheckpointError(f"{target}: somebody else is writing it just now. Wait, or give another name.") from None
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(descriptor)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    """Everything below `path` reaches the disk."""
    for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
        if file.is_file():
            with file.open("rb") as opened:
                os.fsync(opened.fileno())


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
