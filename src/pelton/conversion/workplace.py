"""Where a target is made: beside its final name, so that nothing half done ever bears that name.

The disk is asked first. What an interrupted conversion left behind is taken up by the next one that makes the same of
the same source, and removed by any other; two at a time are told apart by a lock. The last act is a rename, after
everything has reached the disk.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pelton.checkpoint.tensor_file import NOTE, note_of
from pelton.config.memory_rule import format_bytes
from pelton.errors import CheckpointError

SUFFIX = ".partial"
_KEY = ".key"
_MODELS = ("config.json", "conversion.json", "genai_config.json")


def check_target(source: Path, target: Path, nbytes: int, *, force: bool) -> None:
    """Raise CheckpointError if the target is there and not `force`, would take its source with it, or finds no room.

    Not everything is replaced: a directory that does not look like a model was given by mistake.
    """
    parent = target.absolute().parent
    if not parent.is_dir():
        raise CheckpointError(f"{parent}: there is no such directory. Make it first.")
    if target.exists():
        _check_replaced(source, target, force=force)
    left = sum(path.stat().st_size for path in _list_files(_part_of(target)))
    free = shutil.disk_usage(parent).free + left
    if free < nbytes:
        raise CheckpointError(
            f"{target}: needs {format_bytes(nbytes)}, and its disk has {format_bytes(free)} free. Make room first."
        )


def _check_replaced(source: Path, target: Path, *, force: bool) -> None:
    if not force:
        raise CheckpointError(f"{target}: is there already. Give another name, or --force to replace it.")
    if source.resolve().is_relative_to(target.resolve()) or target.resolve().is_relative_to(source.resolve()):
        raise CheckpointError(f"{target}: is, holds or lies in the source. Give another name.")
    if target.is_dir() and any(target.iterdir()) and not any((target / name).exists() for name in _MODELS):
        raise CheckpointError(f"{target}: is a directory of something else than a model, and stays. Give another name.")


@contextmanager
def make_target(target: Path, key: str) -> Iterator[Path]:
    """A path to write to, which becomes `target` when the block ends without an error; else it is removed.

    If an interrupted run with the same `key` left something there, it is still there. An interruption leaves what has
    reached the disk, where that is worth it. Raises CheckpointError if somebody else makes it, or the disk refuses.
    """
    parent, part = target.absolute().parent, _part_of(target)
    noted = part.with_name(part.name + _KEY)
    with _lock(parent / f".{target.name}.lock", target):
        is_kept = False
        try:
            _begin(part, noted, key)
            yield part
            _finish(part, target)
        except KeyboardInterrupt:
            is_kept = any(path.name.endswith(NOTE) for path in _list_files(part))
            raise
        except OSError as error:
            raise CheckpointError(f"{target}: cannot be written: {error.strerror or error}.") from error
        finally:
            if not is_kept:
                _remove_all(part, noted)


def find_left(target: Path) -> Path | None:
    """What an interrupted conversion left of the target, if it left anything."""
    part = _part_of(target)
    return part if part.exists() else None


def _begin(part: Path, noted: Path, key: str) -> None:
    with suppress(OSError):
        if noted.read_text(encoding="ascii") == key:
            return
    _remove_all(part, noted)
    noted.write_text(key, encoding="ascii")


def _finish(part: Path, target: Path) -> None:
    for path in _list_files(part):
        if path.name.endswith(NOTE):
            path.unlink()
    _sync(part)
    if target.exists():
        old = target.absolute().parent / f".{target.name}.old"
        _remove(old)
        target.rename(old)
        part.rename(target)
        _remove(old)
    else:
        part.rename(target)
    _sync_directory(target.absolute().parent)


def _part_of(target: Path) -> Path:
    return target.absolute().parent / f".{target.name}{SUFFIX}"


def _list_files(part: Path) -> list[Path]:
    """What is there of a target that is being made, notes included."""
    if part.is_dir():
        return [path for path in sorted(part.rglob("*")) if path.is_file()]
    return [path for path in (part, note_of(part)) if path.is_file()]


def _remove_all(part: Path, noted: Path) -> None:
    for path in (part, note_of(part), noted):
        _remove(path)


@contextmanager
def _lock(path: Path, target: Path) -> Iterator[None]:
    try:
        descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise CheckpointError(f"{target}: cannot be written: {error.strerror}.") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        if not isinstance(error, BlockingIOError):
            raise CheckpointError(f"{path}: cannot be locked: {error.strerror}. Use another disk.") from error
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
