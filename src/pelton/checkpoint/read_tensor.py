"""A tensor's bytes as rows of a mapped file, for every format alike."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from pelton.checkpoint.contract import TensorInfo
from pelton.checkpoint.mapped_file import MappedFile
from pelton.checkpoint.placed_tensor import PlacedTensor
from pelton.checkpoint.scheme import GROUPED, READABLE, SCHEMES, row_bytes
from pelton.checkpoint.weight import Tensor
from pelton.errors import CheckpointError, nearest


def make_tensor(file: MappedFile, info: TensorInfo, offset: int) -> Tensor:
    """The tensor at `offset`: a view, not a copy. Raises CheckpointError for a scheme nothing here computes with."""
    _check_readable(file, info)
    num_rows = math.prod(info.shape[:-1])
    length = row_bytes(info.scheme, info.shape[-1] if info.shape else 1)
    rows = file.rows(offset, num_rows, length)
    if info.scheme == "MXFP4":
        check_exponents(rows[:, :: SCHEMES["MXFP4"].block_bytes], f"{file.path}: tensor {info.name!r}")
    return Tensor(info.name, info.shape, info.scheme, rows)


def make_placed_tensor(placed: PlacedTensor) -> Tensor:
    """As `make_tensor`, for a tensor that may have strides: then its rows are put in order when asked for."""
    _check_readable(placed.file, placed.info)
    return Tensor(placed.info.name, placed.info.shape, placed.info.scheme, placed.rows())


def _check_readable(file: MappedFile, info: TensorInfo) -> None:
    if info.scheme not in READABLE:
        raise CheckpointError(
            f"{file.path}: tensor {info.name!r} is stored as {info.scheme}, which cannot be computed with. Use a file "
            f"with another quantization, for example Q4_K_M or IQ4_XS. Known: {', '.join(sorted(READABLE - GROUPED))}."
        )


def check_exponents(exponents: npt.NDArray[np.uint8], where: str) -> None:
    """Raise CheckpointError if one of a tensor's E8M0 scales is 255: not a number, and no kernel makes one of it."""
    if (exponents == 255).any():
        raise CheckpointError(f"{where} has a scale that is not a number. It is damaged; fetch it again.")


def unknown_tensor(path: Path, name: str, known: Iterable[str]) -> CheckpointError:
    """The error for a name that is not in the file."""
    return CheckpointError(f"{path}: there is no tensor {name!r}. {nearest(name, known)}")
