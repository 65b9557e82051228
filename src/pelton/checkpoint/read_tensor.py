"""A tensor's bytes as rows of a mapped file, for every format alike."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path

from pelton.checkpoint.contract import TensorInfo
from pelton.checkpoint.mapped_file import MappedFile
from pelton.checkpoint.scheme import USABLE, row_bytes
from pelton.checkpoint.weight import Tensor
from pelton.errors import CheckpointError, nearest


def make_tensor(file: MappedFile, info: TensorInfo, offset: int) -> Tensor:
    """The tensor at `offset`: a view, not a copy. Raises CheckpointError for a scheme nothing here computes with."""
    if info.scheme not in USABLE:
        raise CheckpointError(
            f"{file.path}: tensor {info.name!r} is stored as {info.scheme}, which cannot be computed with. "
            f"Known: {', '.join(sorted(USABLE))}."
        )
    num_rows = math.prod(info.shape[:-1])
    length = row_bytes(info.scheme, info.shape[-1] if info.shape else 1)
    return Tensor(info.name, info.shape, info.scheme, file.rows(offset, num_rows, length))


def unknown_tensor(path: Path, name: str, known: Iterable[str]) -> CheckpointError:
    """The error for a name that is not in the file."""
    return CheckpointError(f"{path}: there is no tensor {name!r}. {nearest(name, known)}")
