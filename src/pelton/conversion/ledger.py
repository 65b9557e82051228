"""What became of everything, for programs: files of the source with hashes, tensors with their steps, numbers, losses.

It lies in the target, as `conversion.json` in a directory and as the key `pelton.conversion` in a GGUF.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from pelton import __version__
from pelton.checkpoint.contract import Checkpoint
from pelton.checkpoint.file_hash import compute_sha256
from pelton.checkpoint.hf.checkpoint import HfCheckpoint
from pelton.conversion.hf_files import directory_of, read_carried
from pelton.conversion.result import Output

LEDGER: Final = "conversion.json"
LEDGER_KEY: Final = "pelton.conversion"
LEDGER_VERSION: Final = 1


def list_files(source: Path, checkpoint: Checkpoint | None, output: Output) -> dict[str, Path]:
    """The files that the target is made of, by their names in the source."""
    weights = output.weights if checkpoint is None else tuple(file.path for file in checkpoint.files)
    if not (checkpoint is None or isinstance(checkpoint, HfCheckpoint)):
        return {path.name: path for path in weights}
    directory = directory_of(source)
    beside = output.files if checkpoint is None or output.is_copy else read_carried(directory)
    return {**{path.name: path for path in weights}, **{name: directory / name for name in beside}}


def hash_files(files: Mapping[str, Path], on_bytes: Callable[[int], None]) -> dict[str, dict[str, Any]]:
    """Size and SHA-256 of each by name. Reads them all."""
    return dict(_hash_each(files, on_bytes))


def _hash_each(files: Mapping[str, Path], on_bytes: Callable[[int], None]) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, path in files.items():
        size = path.stat().st_size
        yield name, {"bytes": size, "sha256": compute_sha256(path)}
        on_bytes(size)


def make_ledger(
    source: Path,
    checkpoint: Checkpoint | None,
    output: Output,
    files: dict[str, dict[str, Any]],
    *,
    to: str,
    scheme: str | None,
) -> dict[str, Any]:
    """The whole of it, as JSON. Equal conversions give equal ledgers."""
    return {
        "version": LEDGER_VERSION,
        "made_by": f"pelton {__version__}",
        "to": to,
        "scheme": scheme,
        "source": {"name": source.resolve().name, "files": files},
        "model": None if checkpoint is None else asdict(checkpoint.spec),
        "tensors": [asdict(record) for record in output.records],
        "losses": [asdict(loss) for loss in output.losses],
    }


def make_key(ledger: Mapping[str, Any], *options: int) -> str:
    """Equal for conversions that write the same bytes."""
    told = json.dumps([ledger, options], sort_keys=True, default=str)
    return hashlib.sha256(told.encode()).hexdigest()
