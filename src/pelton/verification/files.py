"""L0: every file of both sides, with its size and hash."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pelton.checkpoint.contract import Checkpoint
from pelton.checkpoint.file_hash import compute_sha256
from pelton.errors import CheckpointError
from pelton.verification.finding import Finding


@dataclass(frozen=True, slots=True)
class FileRecord:
    """One file. `name` is its path below the checkpoint's."""

    name: str
    nbytes: int
    sha256: str


def list_files(checkpoint: Checkpoint) -> list[Path]:
    """The model's files: all of a directory, or the parts of a GGUF. Raises CheckpointError for what is no file."""
    if not checkpoint.path.is_dir():
        return [file.path for file in checkpoint.files]
    paths = [path for path in sorted(checkpoint.path.rglob("*")) if not path.is_dir()]
    for path in paths:
        if not path.is_file():
            raise CheckpointError(f"{path}: is neither a file nor a directory. Remove it from the model's directory.")
    return paths


def record_files(checkpoint: Checkpoint, on_bytes: Callable[[int], None]) -> list[FileRecord]:
    """Size and hash of each. Reads everything once."""
    root = checkpoint.path if checkpoint.path.is_dir() else checkpoint.path.parent
    records = []
    for path in list_files(checkpoint):
        records.append(FileRecord(path.relative_to(root).as_posix(), path.stat().st_size, compute_sha256(path)))
        on_bytes(records[-1].nbytes)
    return records


def compare_files(ours: list[FileRecord], told: dict[str, str]) -> list[Finding]:
    """What the target's ledger says of the source's files (`told`: hashes by name), against what they are."""
    here = {record.name: record.sha256 for record in ours}
    changed = [name for name, sha256 in told.items() if name in here and here[name] != sha256]
    return [
        Finding(f"L0.SOURCE:{name}", f"{name} is not the file that the target was made of", "note") for name in changed
    ]
