"""The key of packed weights: a hash of all that their bytes depend on, taken without reading the checkpoint.

What is hashed: the state of each file (device, inode, size, times of the last writes) and samples of its bytes; which
bytes of which file each matrix is packed from, with scheme and shape; bytes that a transform has moved, all of them;
and what packing makes of a fixed matrix of each scheme, so that another layout is another key without anybody counting
versions. Instruction sets do not matter: they pack the same bytes. 10 ms. Why this is safe: decision 0007.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import Any

import numpy as np

from pelton import __version__
from pelton.backends.cpu import _native
from pelton.backends.cpu.mapped_pages import find_mapping, span
from pelton.checkpoint.mapped_file import MappedFile
from pelton.checkpoint.scheme import row_bytes
from pelton.checkpoint.weight import Bytes, Conversion, Tensor

FORMAT = 1  # raised when the same rows of a checkpoint become other rows of a matrix: nothing else here would see it
NUM_SAMPLES = 64
SAMPLE_BYTES = 512
PROBE_ROWS, PROBE_K = 96, 512


@dataclass(frozen=True, slots=True)
class Placed:
    """A matrix with its place, and where its rows come from: one tensor, or gates and ups to interleave."""

    matrix: _native.Matrix
    parts: tuple[Tensor, ...]

    @property
    def sources(self) -> tuple[Bytes, ...]:
        """The stored bytes that it is packed from."""
        return tuple(source for part in self.parts for source in part.sources)


def compute_key(placed: Sequence[Placed], files: Sequence[MappedFile], *, exact: bool) -> str:
    """Hexadecimal digits; equal only for equal packed bytes."""
    schemes = sorted({part.scheme for each in placed for part in each.parts})
    everything: list[Any] = [FORMAT, __version__, exact]
    everything += [(astuple(file.identity), sample(file.data)) for file in files]
    everything += [(scheme, probe_layout(scheme)) for scheme in schemes]
    everything += [[describe(part) for part in each.parts] for each in placed]
    return hashlib.sha256(repr(everything).encode()).hexdigest()


def describe(part: Tensor) -> tuple[Any, ...]:
    """What a tensor is, and where its bytes are."""
    recipe = part.stored.recipe if isinstance(part.stored, Conversion) else None
    places = tuple(locate(source) for source in part.sources)
    size = _native.packed_matrix_bytes(part.scheme, part.shape[0], part.shape[1], False)
    return (part.name, part.scheme, part.shape, recipe, places, size)


def locate(source: Bytes) -> tuple[Any, ...]:
    """Where in its file a view lies; for bytes of our own, what they are."""
    mapping = find_mapping(source)
    if mapping is None:
        return (source.nbytes, _native.checksum(np.ascontiguousarray(source).reshape(-1)))
    return (len(mapping), *span(mapping, source), source.strides)


def sample(data: Bytes) -> str:
    """A hash of a few bytes from all over a file."""
    digest = hashlib.sha256()
    for begin in np.linspace(0, max(0, data.size - SAMPLE_BYTES), NUM_SAMPLES, dtype=np.int64).tolist():
        digest.update(data[begin : begin + SAMPLE_BYTES].data)
    return digest.hexdigest()


def probe_layout(scheme: str) -> str:
    """A hash of what packing makes of a fixed matrix."""
    num_bytes = PROBE_ROWS * row_bytes(scheme, PROBE_K)
    numbers = np.arange(num_bytes, dtype=np.uint32) * np.uint32(2654435761) >> np.uint32(24)
    packed = _native.pack(scheme, numbers.astype(np.uint8).reshape(PROBE_ROWS, -1), PROBE_K)
    return hashlib.sha256(packed.data).hexdigest()
