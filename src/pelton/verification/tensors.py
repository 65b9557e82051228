"""L2: every tensor of both sides, brought to the plan's form, place by place.

Both sides are matched with the weight map, so a tensor without a place or a place without a tensor is found before any
byte is compared. At each place the bytes are the same, or the numbers are, or it is said how far apart they are.
One weight of the plan is in memory at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from pelton.checkpoint.contract import Checkpoint
from pelton.checkpoint.dequantize import dequantize_rows
from pelton.checkpoint.weight import Tensor
from pelton.errors import CheckpointError
from pelton.loading.weights import Match, match_tensors, pieces
from pelton.models import find_model
from pelton.verification.finding import Finding

CHUNK_ELEMENTS = 1 << 21
Sameness = Literal["bytes", "numbers", "different"]


@dataclass(frozen=True, slots=True)
class TensorRecord:
    """One place of the plan. Errors are of all its numbers, relative to the root mean square of the source's."""

    name: str  # in the plan
    sources: tuple[str, ...]
    targets: tuple[str, ...]
    shape: tuple[int, ...]
    schemes: tuple[str, str]
    sameness: Sameness
    relative_rms: float = 0.0
    relative_max: float = 0.0
    num_different: int = 0
    num_not_finite: int = 0  # in the target and not in the source
    num_flushed: int = 0  # zero in the target and not in the source


def compare_tensors(
    ours: Checkpoint, theirs: Checkpoint, on_bytes: Callable[[int], None]
) -> tuple[list[TensorRecord], list[Finding]]:
    """All places. What does not match at all is one finding, and then nothing more is compared."""
    matches = []
    for side, checkpoint in (("source", ours), ("target", theirs)):
        try:
            weight_map = find_model(checkpoint.spec.architecture).WEIGHTS
            matches.append(match_tensors(checkpoint, weight_map, checkpoint.spec))
        except CheckpointError as error:
            return [], [Finding(f"L2.MATCH:{side}", str(error))]
    findings = [
        Finding(f"L2.DROPPED:{name}", f"{name} of the {side} is not used: {why}", "note")
        for side, match in zip(("source", "target"), matches, strict=True)
        for name, why in match.dropped
    ]
    sides = [list(_by_weight(match)) for match in matches]
    if [name for name, _ in sides[0]] != [name for name, _ in sides[1]]:
        unequal = sorted({name for name, _ in sides[0]} ^ {name for name, _ in sides[1]})
        findings.append(Finding("L2.PLACES", f"one side has {', '.join(unequal[:5])} and the other has not"))
        return [], findings
    records = []
    for (name, a), (_, b) in zip(*sides, strict=True):
        try:
            record = compare_parts(name, list(_read(ours, matches[0], a)), list(_read(theirs, matches[1], b)))
        except CheckpointError as error:
            findings.append(Finding(f"L2.READ:{name}", str(error)))
            continue
        records.append(record)
        findings += judge_tensor(record)
        on_bytes(sum(ours.tensors[matches[0].names[key]].nbytes for key in a))
    return records, findings


def _by_weight(match: Match) -> Iterator[tuple[str, list[str]]]:
    """Plan names, sorted, and the keys of the places that make each."""
    groups: dict[str, list[str]] = {}
    for key, place in match.places.items():
        groups.setdefault(place.to, []).append(key)
    yield from sorted(groups.items())


def _read(checkpoint: Checkpoint, match: Match, keys: list[str]) -> Iterator[Tensor]:
    """The tensors of one weight in the plan's order."""
    found = [
        piece for key in keys for piece in pieces(checkpoint.read(match.names[key]), match.places[key], checkpoint.spec)
    ]
    found.sort(key=lambda piece: piece[0])
    yield from (tensor for _, tensor in found)


def compare_parts(name: str, ours: list[Tensor], theirs: list[Tensor]) -> TensorRecord:
    """The rows of both, one after the other, whatever tensors they are kept in."""
    shapes = [(sum(part.shape[0] for part in parts), *parts[0].shape[1:]) for parts in (ours, theirs)]
    schemes = tuple("+".join(sorted({part.scheme for part in parts})) for parts in (ours, theirs))
    names = tuple(tuple(dict.fromkeys(part.name for part in parts)) for parts in (ours, theirs))
    if shapes[0] != shapes[1]:
        raise CheckpointError(f"{name}: has shape {list(shapes[0])} in the source and {list(shapes[1])} in the target.")
    same = len(ours) == len(theirs) and all(_is_same(a, b) for a, b in zip(ours, theirs, strict=True))
    common = (name, names[0], names[1], shapes[0], (schemes[0], schemes[1]))
    return TensorRecord(*common, "bytes") if same else _measure(common, ours, theirs)


def _is_same(ours: Tensor, theirs: Tensor) -> bool:
    return ours.scheme == theirs.scheme and ours.shape == theirs.shape and np.array_equal(ours.payload, theirs.payload)


def _measure(
    common: tuple[str, tuple[str, ...], tuple[str, ...], tuple[int, ...], tuple[str, str]],
    ours: list[Tensor],
    theirs: list[Tensor],
) -> TensorRecord:
    squares = errors = 0.0
    largest = 0.0
    num_different = num_not_finite = num_flushed = 0
    columns = common[3][-1] if len(common[3]) > 1 else 1
    for a, b in zip(_rows(ours, columns), _rows(theirs, columns), strict=True):
        num_different += int((a.view(np.uint32) != b.view(np.uint32)).sum())
        num_not_finite += int((~np.isfinite(b) & np.isfinite(a)).sum())
        num_flushed += int(((b == 0) & (a != 0)).sum())
        with np.errstate(invalid="ignore", over="ignore"):
            error = b.astype(np.float64) - a
        squares += float(np.square(a, dtype=np.float64).sum())
        errors += float(np.square(error).sum())
        largest = max(largest, float(np.abs(error).max(initial=0.0)))
    count = int(np.prod(common[3]))
    scale = (squares / max(count, 1)) ** 0.5 or 1.0
    sameness: Sameness = "numbers" if num_different == 0 else "different"
    rms = (errors / max(count, 1)) ** 0.5 / scale
    return TensorRecord(*common, sameness, rms, largest / scale, num_different, num_not_finite, num_flushed)


def _rows(parts: list[Tensor], columns: int) -> Iterator[np.ndarray]:
    """The numbers of all parts as [rows, columns], in pieces that do not depend on how the parts are cut."""
    step = max(1, CHUNK_ELEMENTS // max(1, columns))
    held = np.zeros((0, columns), np.float32)
    for part in parts:
        rows = part.payload
        length = columns if len(part.shape) > 1 else part.shape[-1]
        for begin in range(0, len(rows), step):
            numbers = dequantize_rows(part.scheme, rows[begin : begin + step]).reshape(-1, length)
            held = np.concatenate((held, numbers.reshape(-1, columns)))
            while len(held) >= step:
                yield held[:step]
                held = held[step:]
    if len(held):
        yield held


def judge_tensor(record: TensorRecord) -> Iterator[Finding]:
    """What there is to say of it: nothing, unless numbers differ."""
    if record.sameness == "different":
        subject = record.targets[0]
        told = (
            f"{record.name}: {record.num_different} of {int(np.prod(record.shape))} numbers differ, by "
            f"{record.relative_rms:.3g} of their size on average and {record.relative_max:.3g} at most"
        )
        if record.num_not_finite:
            told += f"; {record.num_not_finite} are no numbers any more"
        if record.num_flushed:
            told += f"; {record.num_flushed} have become zero"
        yield Finding(f"L2.NUMBERS:{subject}", f"{told} ({record.schemes[0]} and {record.schemes[1]}).")
