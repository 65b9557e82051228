"""Two Hugging Face directories of a model that cannot be run here: names, bytes and texts, and nothing of their sense.

Tensors are held against those of the same name. The model's numbers and its texts are the same where the files that
say them are; where they are not, that level was not compared, and the verdict says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from pelton.checkpoint.file_hash import compute_sha256
from pelton.checkpoint.hf.shards import WEIGHT_SUFFIXES, read_weights
from pelton.checkpoint.placed_tensor import PlacedTensor
from pelton.checkpoint.read_tensor import make_placed_tensor
from pelton.checkpoint.scheme import READABLE
from pelton.conversion.hf_files import directory_of, read_all
from pelton.errors import CheckpointError
from pelton.verification.files import FileRecord
from pelton.verification.finding import Finding
from pelton.verification.tensors import TensorRecord, compare_parts, judge_tensor

NUMBERS: Final = "config.json"


def record_stored(path: Path, on_bytes: Callable[[int], None]) -> list[FileRecord]:
    """Size and hash of the weights and of all files beside them."""
    directory = directory_of(path)
    weights = {placed.file.path.name: placed.file.path for placed in read_weights(path).values()}
    files = {**weights, **{name: directory / name for name in read_all(directory)}}
    records = []
    for name, file in sorted(files.items()):
        records.append(FileRecord(name, file.stat().st_size, compute_sha256(file)))
        on_bytes(records[-1].nbytes)
    return records


def compare_texts_stored(ours: list[FileRecord], theirs: list[FileRecord]) -> list[Finding]:
    """Files that are not weights and not the same: whoever made one of them anew said something else in it."""
    here, there = ({each.name: each.sha256 for each in side if not _is_weights(each.name)} for side in (ours, theirs))
    return list(_list_unequal(here, there))


def _is_weights(name: str) -> bool:
    return name.endswith(WEIGHT_SUFFIXES)


def _list_unequal(here: Mapping[str, str], there: Mapping[str, str]) -> Iterator[Finding]:
    for name in sorted(here.keys() | there.keys()):
        level = "L1" if name == NUMBERS else "L3"
        if name not in there:
            yield Finding(f"{level}.FILE:{name}", f"{name} is missing in the target")
        elif name not in here:
            yield Finding(f"{level}.FILE:{name}", f"{name} is in the target alone", "note")
        elif here[name] != there[name]:
            yield Finding(f"{level}.FILE:{name}", f"{name} is another file, and nobody here knows what that means")


def compare_stored(
    source: Path, target: Path, on_bytes: Callable[[int], None]
) -> tuple[list[TensorRecord], list[Finding]]:
    """All tensors by their names. Raises CheckpointError for weights that cannot be read."""
    ours, theirs = read_weights(source), read_weights(target)
    unequal = sorted(ours.keys() ^ theirs.keys())
    if unequal:
        told = ", ".join(unequal[:5])
        return [], [Finding("L2.PLACES", f"{len(unequal)} tensors are on one side alone: {told}")]
    records, findings = [], list[Finding]()
    for name, placed in ours.items():
        try:
            record = _compare(name, placed, theirs[name])
        except CheckpointError as error:
            findings.append(Finding(f"L2.READ:{name}", str(error)))
            continue
        records.append(record)
        findings += judge_tensor(record)
        on_bytes(placed.info.nbytes)
    return records, findings


def _compare(name: str, ours: PlacedTensor, theirs: PlacedTensor) -> TensorRecord:
    alike = (ours.info.shape, ours.info.scheme) == (theirs.info.shape, theirs.info.scheme)
    if alike and (ours.flat() == theirs.flat()).all():
        schemes = (ours.info.scheme, theirs.info.scheme)
        return TensorRecord(name, (name,), (name,), ours.info.shape, schemes, "bytes")
    if not ours.info.shape or not {ours.info.scheme, theirs.info.scheme} <= READABLE:
        raise CheckpointError(f"{name}: {ours.info.scheme} and {theirs.info.scheme} do not hold the same bytes.")
    return compare_parts(name, [make_placed_tensor(ours)], [make_placed_tensor(theirs)])
