"""Writes what a conversion decided on, in the container that was asked for, with the ledger in it.

A GGUF's ledger stands before its tensors, and what is lost is known only when the file was read back. So room is kept
for it where losses are accepted, and filled in afterwards; blanks behind a JSON text mean nothing.
"""

from __future__ import annotations

import json
import mmap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from pelton.checkpoint.gguf.writer import encode_header, get_alignment, write_behind
from pelton.checkpoint.hf.safetensors_writer import write_safetensors, write_safetensors_file
from pelton.checkpoint.pytorch.writer import write_pytorch
from pelton.conversion.hf_files import check_file_name, select_carried
from pelton.conversion.hf_tokenizer_files import encode_json
from pelton.conversion.ledger import LEDGER, LEDGER_KEY
from pelton.conversion.restore import FILES, ORIGINAL, SIDE_FILE, Original, hash_texts
from pelton.conversion.result import Output
from pelton.errors import CheckpointError

Format = Literal["safetensors", "gguf", "pytorch"]
_ROOM: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class Job:
    """Where to write and how. `original`: the GGUF that the target is again. `has_room`: for more losses."""

    part: Path
    to: Format
    original: Original | None
    max_shard_bytes: int
    has_room: bool
    on_bytes: Callable[[int], None]


def write(job: Job, output: Output, ledger: Mapping[str, Any]) -> None:
    """All of the target. Raises CheckpointError for what the format cannot hold, OSError if the disk refuses."""
    if job.to == "gguf":
        _write_gguf(job, output, ledger)
    else:
        _write_directory(job, output, ledger)


def add_losses(job: Job, ledger: Mapping[str, Any]) -> None:
    """Write the ledger again, with what was found when the target was read back."""
    if job.to != "gguf":
        (job.part / LEDGER).write_bytes(encode_json(ledger))
    elif job.original is None:
        _replace_ledger(job.part, _encode(ledger))


def _write_gguf(job: Job, output: Output, ledger: Mapping[str, Any]) -> None:
    if job.original is not None:  # it is the file that it once was: nothing of ours is added
        write_behind(
            job.part,
            job.original.header,
            output.tensors,
            alignment=job.original.alignment,
            on_bytes=job.on_bytes,
            is_resumable=True,
        )
        return
    text = _encode(ledger) + " " * (_ROOM if job.has_room else 0)
    metadata = {**output.metadata, LEDGER_KEY: text}
    header, alignment = encode_header(job.part, metadata, output.tensors), get_alignment(job.part, metadata)
    write_behind(job.part, header, output.tensors, alignment=alignment, on_bytes=job.on_bytes, is_resumable=True)


def _replace_ledger(path: Path, text: str) -> None:
    """In place: a key's value lies behind the key, its type and its length."""
    key, raw = LEDGER_KEY.encode(), text.encode()
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as data:
        begin = data.find(len(key).to_bytes(8, "little") + key) + 8 + len(key) + 4
        room = int.from_bytes(data[begin : begin + 8], "little")
        if len(raw) > room:
            raise CheckpointError(f"{path}: {len(raw)} bytes of what is lost do not fit into {room}. Accept less.")
        data[begin + 8 : begin + 8 + room] = raw.ljust(room)


def _encode(ledger: Mapping[str, Any]) -> str:
    return json.dumps(ledger, ensure_ascii=False)


def _write_directory(job: Job, output: Output, ledger: Mapping[str, Any]) -> None:
    write_files(job.part, output.files, str(ledger["source"]["name"]))
    _write_weights(job, output)
    if output.side:
        told = {FILES: hash_texts(select_carried(output.files)), ORIGINAL: json.dumps(ledger["source"]["files"])}
        write_safetensors_file(
            job.part / SIDE_FILE, output.side, metadata=told, on_bytes=job.on_bytes, is_resumable=True
        )
    (job.part / LEDGER).write_bytes(encode_json(ledger))


def write_files(part: Path, files: Mapping[str, bytes], source: str) -> None:
    """The files beside the weights, whose names come from `source`. Raises CheckpointError for one that leads away."""
    part.mkdir(exist_ok=True)
    for name, raw in files.items():
        check_file_name(name, source)
        path = part / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(raw)


def _write_weights(job: Job, output: Output) -> None:
    if job.to == "pytorch":
        for path in job.part.glob("pytorch_model*.bin"):  # of an interrupted run; archives are not taken up
            path.unlink()
        write_pytorch(job.part, output.tensors, max_shard_bytes=job.max_shard_bytes, on_bytes=job.on_bytes)
        return
    write_safetensors(
        job.part,
        output.tensors,
        metadata={"format": "pt"},
        max_shard_bytes=job.max_shard_bytes,
        on_bytes=job.on_bytes,
        is_resumable=True,
    )
