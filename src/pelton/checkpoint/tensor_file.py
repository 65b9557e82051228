"""A header and tensors behind it, written in one pass; GGUF and safetensors are both that.

A large file can be taken up again where an interrupted program left it: every GiB what is there reaches the disk, and
then a note beside the file says how far that is. Whoever asks for that knows that header and tensors are the same as
before. Memory is one tensor.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from itertools import accumulate
from pathlib import Path
from typing import BinaryIO

import numpy as np

from pelton.checkpoint.outgoing import Outgoing
from pelton.checkpoint.weight import Bytes
from pelton.errors import CheckpointError

STEP_BYTES = 1 << 30  # at most this much is written twice
NOTE = ".note"


def write_tensor_file(
    path: Path,
    header: bytes,
    tensors: Sequence[Outgoing],
    *,
    alignment: int = 1,
    on_bytes: Callable[[int], None] = lambda num_bytes: None,
    is_resumable: bool = False,
) -> None:
    """Write the file anew, or from where its note says. Each tensor is filled up with zeros to `alignment`.

    Raises CheckpointError for bytes that are not as many as the tensor has, OSError if the disk refuses.
    """
    ends = list(accumulate((-(-each.nbytes // alignment) * alignment for each in tensors), initial=len(header)))
    begin = find_begin(path, ends) if is_resumable else 0
    if is_resumable and not begin:
        path.unlink(missing_ok=True)
    durable = begin
    with path.open("r+b" if begin else "xb") as file:
        file.truncate(begin)
        file.seek(begin)
        if not begin:
            file.write(header)
        for tensor, start, end in zip(tensors, ends, ends[1:], strict=False):
            if end > begin:
                rows = tensor.make()
                _check(path, tensor, rows)
                file.write(np.ascontiguousarray(rows).data)
                file.write(bytes(end - start - rows.nbytes))
            on_bytes(tensor.nbytes)
            if is_resumable and end - durable >= STEP_BYTES:
                durable = _note(path, file, end)
        if is_resumable and durable:
            _note(path, file, ends[-1])


def find_begin(path: Path, ends: Collection[int]) -> int:
    """How much of the file is there for certain: up to one of `ends`, or 0 if nobody knows."""
    try:
        begin = int(note_of(path).read_text(encoding="ascii"))
        is_there = begin in ends and begin <= path.stat().st_size
    except (OSError, ValueError):
        return 0
    return begin if is_there else 0


def note_of(path: Path) -> Path:
    """The note of a file that is being written."""
    return path.with_name(path.name + NOTE)


def _note(path: Path, file: BinaryIO, offset: int) -> int:
    file.flush()
    os.fsync(file.fileno())
    made = path.with_name(path.name + ".new" + NOTE)
    made.write_text(str(offset), encoding="ascii")
    made.replace(note_of(path))
    return offset


def _check(path: Path, tensor: Outgoing, rows: Bytes) -> None:
    if rows.nbytes != tensor.nbytes:
        raise CheckpointError(
            f"{path}: tensor {tensor.name!r} has {rows.nbytes} bytes; {tensor.scheme} of shape "
            f"{list(tensor.shape)} takes {tensor.nbytes}."
        )
