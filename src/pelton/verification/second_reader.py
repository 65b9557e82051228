"""L5: the same files through other people's readers: names, shapes, types and bytes of every tensor must agree.

A reader that is wrong about a file is wrong about it on both sides of a comparison, and finds nothing. So the packages
gguf and safetensors, where they are installed, read each side in a process of its own (`second_reader_child`). Where
they are not, or the format has no such reader, the level was not compared, and that is said.
"""

from __future__ import annotations

import hashlib
import json
import math
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pelton.checkpoint.contract import Checkpoint, TensorInfo
from pelton.checkpoint.dequantize import dequantize_rows
from pelton.checkpoint.gguf.checkpoint import GgufCheckpoint
from pelton.checkpoint.hf.safetensors import read_safetensors
from pelton.checkpoint.mapped_file import Bytes
from pelton.checkpoint.scheme import READABLE, row_bytes
from pelton.verification.finding import Finding
from pelton.verification.second_reader_child import ABSENT, NUM_ROWS, hash_numbers

TIMEOUT_S: Final = 3600.0


@dataclass(frozen=True, slots=True)
class SecondReading:
    """What another reader saw of one side. Some types it can only name: their bytes and numbers were not compared."""

    side: str
    library: str
    num_tensors: int
    num_bytes_compared: int  # tensors of which the bytes were compared
    num_numbers_compared: int  # quantized tensors of which rows were dequantized by both


def read_again(
    ours: Checkpoint, theirs: Checkpoint, python: str = sys.executable
) -> tuple[list[SecondReading], list[Finding]]:
    """Both sides. Of a side that could not be read there is a note and no reading. `python` runs the other readers."""
    readings, findings = [], list[Finding]()
    for side, checkpoint in (("source", ours), ("target", theirs)):
        library = _library_of(checkpoint)
        if library is None:
            findings.append(Finding(f"L5.ABSENT:{side}", f"no second reader for the {side}'s format", "note"))
            continue
        told = _ask(python, library, sorted({str(file.path) for file in checkpoint.files}))
        if isinstance(told, str):
            findings.append(Finding(f"L5.ABSENT:{side}", f"the {side} was not read again: {told}", "note"))
            continue
        reading, found = _compare(side, library, checkpoint, told)
        readings.append(reading)
        findings += found
    return readings, findings


def _library_of(checkpoint: Checkpoint) -> str | None:
    if isinstance(checkpoint, GgufCheckpoint):
        return "gguf"
    return "safetensors" if all(file.path.suffix == ".safetensors" for file in checkpoint.files) else None


def _ask(python: str, library: str, paths: list[str]) -> dict[str, dict[str, Any]] | str:
    """What the library says of each tensor, or why it says nothing."""
    command = [python, "-m", "pelton.verification.second_reader_child", library, *paths]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{python} could not run the package {library}: {error}"
    if done.returncode == ABSENT:
        return f"the package {library} is not installed"
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-1:] or ["nothing"]
        return f"the package {library} ended with {done.returncode} and said: {last[0][:300]}"
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return {line["name"]: line for line in lines}


def _compare(
    side: str, library: str, checkpoint: Checkpoint, told: Mapping[str, dict[str, Any]]
) -> tuple[SecondReading, list[Finding]]:
    here = {info.name: (info, raw) for info, raw in _stored(checkpoint)}
    findings = []
    if unequal := sorted(here.keys() ^ told.keys()):
        names = ", ".join(unequal[:5])
        findings.append(Finding(f"L5.NAMES:{side}", f"{library} sees other tensors in the {side}: {names}"))
    num_bytes = num_numbers = 0
    for name in here.keys() & told.keys():
        (info, raw), other = here[name], told[name]
        expected = (list(info.shape), info.scheme)
        if (other["shape"], other["type"]) != expected:
            what = f"{name} of the {side} is {expected} here and {(other['shape'], other['type'])} to {library}"
            findings.append(Finding(f"L5.TENSOR:{name}", what))
            continue
        if "sha256" in other:
            num_bytes += 1
            if hashlib.sha256(raw.reshape(-1).data).hexdigest() != other["sha256"]:
                findings.append(Finding(f"L5.BYTES:{name}", f"{name} of the {side} has other bytes to {library}"))
        if "numbers" in other and info.scheme in READABLE:
            num_numbers += 1
            if hash_numbers(dequantize_rows(info.scheme, raw[:NUM_ROWS])) != other["numbers"]:
                findings.append(Finding(f"L5.NUMBERS:{name}", f"{name} of the {side} has other numbers to {library}"))
    return SecondReading(side, library, len(here), num_bytes, num_numbers), findings


def _stored(checkpoint: Checkpoint) -> Iterator[tuple[TensorInfo, Bytes]]:
    """Tensors as the files have them, with their bytes as rows where the type has rows."""
    if isinstance(checkpoint, GgufCheckpoint):
        for stored in checkpoint.stored.values():
            shape = stored.info.shape
            length = row_bytes(stored.info.scheme, shape[-1] if shape else 1)
            yield stored.info, stored.file.rows(stored.offset, math.prod(shape[:-1]), length)
        return
    for file in checkpoint.files:
        for placed in read_safetensors(file.path).values():
            yield placed.info, placed.flat()
