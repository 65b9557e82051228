"""One safetensors file: a JSON header of names, dtypes, shapes and places, then bytes without a gap.

Invariant: the tensors cover the file from the end of the header to its last byte, none overlaps another, and each has
exactly the bytes that its shape and dtype need, in integers that cannot overflow. Nothing is allocated for a claim of
the file beyond its header, which is at most 100 MB as in the reference reader.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pelton.checkpoint.contract import TensorInfo
from pelton.checkpoint.fields import short
from pelton.checkpoint.foreign_content import HEAD_BYTES, describe_content
from pelton.checkpoint.mapped_file import MappedFile
from pelton.checkpoint.placed_tensor import PlacedTensor
from pelton.checkpoint.scheme import GROUPED, SCHEMES, Scheme
from pelton.checkpoint.strict_json import parse_object
from pelton.errors import CheckpointError, nearest

_LENGTH_BYTES = 8
_MAX_HEADER_BYTES = 100_000_000
# A header is a few hundred bytes for each tensor, and metadata. Whoever wants more wants the reader's time and memory.
_MAX_TENSORS = 200_000
_MAX_METADATA_BYTES = 4 << 20
_MAX_ENTRY_BYTES = 1 << 10
_ENTRY_MARK = b'"data_offsets"'
_CHUNK_BYTES = 1 << 20
_MAX_NAME_CHARACTERS = 4096
_MAX_INTEGER = 1 << 63
_METADATA = "__metadata__"
_FIELDS = {"dtype", "shape", "data_offsets"}
_GGUF_ONLY = {name for name in SCHEMES if "_K" in name or name[:2] in ("Q4", "Q5", "Q8", "IQ", "TQ")}
_DTYPES = {name: scheme for name, scheme in SCHEMES.items() if name not in _GGUF_ONLY | GROUPED | {"MXFP4", "NVFP4"}}


def read_safetensors(path: Path) -> dict[str, PlacedTensor]:
    """All tensors of the file, in the order of their bytes. Raises CheckpointError; reads no tensor data."""
    file = MappedFile(path)
    header_end, header = _read_header(file)
    _check_metadata(path, header.pop(_METADATA, None))
    claims = sorted((_parse_entry(path, name, entry) for name, entry in header.items()), key=_begin_and_end)
    placed: dict[str, PlacedTensor] = {}
    expected = 0
    for claim in claims:
        if claim.begin != expected:
            kind = "overlaps the tensor before it" if claim.begin < expected else "leaves a hole before it"
            raise CheckpointError(
                f"{path}: tensor {claim.info.name!r} begins at {claim.begin}, expected {expected}: it {kind}."
            )
        expected = claim.end
        placed[claim.info.name] = PlacedTensor(claim.info, file, header_end + claim.begin)
    if header_end + expected != file.size:
        what = "is truncated; fetch it again" if header_end + expected > file.size else "has bytes behind its tensors"
        raise CheckpointError(
            f"{path}: has {file.size} bytes and its header describes {header_end + expected}: it {what}."
        )
    return placed


def read_metadata(path: Path) -> dict[str, str]:
    """What the file says of itself beside its tensors. Raises CheckpointError."""
    _, header = _read_header(MappedFile(path))
    metadata = header.get(_METADATA)
    _check_metadata(path, metadata)
    return dict(metadata or {})


def _read_header(file: MappedFile) -> tuple[int, dict[str, Any]]:
    if file.size < _LENGTH_BYTES:
        raise CheckpointError(f"{file.path}: has {file.size} bytes, too few for a safetensors file.")
    length = int.from_bytes(file.data[:_LENGTH_BYTES].tobytes(), "little")
    if length > _MAX_HEADER_BYTES:
        if what := describe_content(file.data[:HEAD_BYTES].tobytes()):
            raise CheckpointError(f"{file.path}: {what}")
        raise CheckpointError(
            f"{file.path}: claims a header of {length} bytes; at most {_MAX_HEADER_BYTES} are allowed. "
            "It is damaged or not a safetensors file."
        )
    end = _LENGTH_BYTES + length
    if end > file.size:
        raise CheckpointError(
            f"{file.path}: the header ends at byte {end} and the file has {file.size}. It is truncated."
        )
    _check_entries(file, end)
    raw = file.data[_LENGTH_BYTES:end].tobytes()
    if not raw.startswith(b"{"):
        raise CheckpointError(f"{file.path}: the header begins with {raw[:8]!r}, expected an object.")
    return end, parse_object(raw, f"{file.path}: the header")


def _check_entries(file: MappedFile, end: int) -> None:
    """Refuse a large header before it is parsed: its entries are counted in passing, in little memory."""
    if end <= _MAX_METADATA_BYTES:
        return
    overlap = len(_ENTRY_MARK) - 1
    count = sum(
        file.data[begin : min(begin + _CHUNK_BYTES + overlap, end)].tobytes().count(_ENTRY_MARK)
        for begin in range(_LENGTH_BYTES, end, _CHUNK_BYTES)
    )
    if count > _MAX_TENSORS or end > _MAX_METADATA_BYTES + count * _MAX_ENTRY_BYTES:
        raise CheckpointError(
            f"{file.path}: has a header of {end - _LENGTH_BYTES} bytes for {count} tensors. At most {_MAX_TENSORS} of "
            f"{_MAX_ENTRY_BYTES} bytes each and {_MAX_METADATA_BYTES} bytes of metadata are read; save it in shards."
        )


def _check_metadata(path: Path, metadata: Any) -> None:
    if metadata is None:
        return
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise CheckpointError(f"{path}: {_METADATA} must map names to text.")


@dataclass(frozen=True, slots=True)
class _Claim:
    """An entry of the header, checked against itself."""

    info: TensorInfo
    begin: int
    end: int


def _begin_and_end(claim: _Claim) -> tuple[int, int]:
    return claim.begin, claim.end


def _parse_entry(path: Path, name: str, entry: Any) -> _Claim:
    if not name or len(name) > _MAX_NAME_CHARACTERS or not name.isprintable():
        raise CheckpointError(f"{path}: has the tensor name {short(name)}; names are printable and not empty.")
    if not isinstance(entry, Mapping) or set(entry) != _FIELDS:
        raise CheckpointError(
            f"{path}: the entry of {name!r} is {short(entry)}; expected dtype, shape and data_offsets."
        )
    dtype = entry["dtype"]
    if not isinstance(dtype, str) or dtype not in _DTYPES:
        raise CheckpointError(f"{path}: tensor {name!r} has dtype {short(dtype)}. {nearest(str(dtype)[:40], _DTYPES)}")
    shape = _check_integers(path, name, "shape", entry["shape"])
    offsets = _check_integers(path, name, "data_offsets", entry["data_offsets"])
    if len(offsets) != 2 or offsets[0] > offsets[1]:
        raise CheckpointError(
            f"{path}: tensor {name!r} has data_offsets {short(list(offsets))}; expected [begin, end]."
        )
    begin, end = offsets
    nbytes = _count_bytes(path, name, shape, _DTYPES[dtype])
    if end - begin != nbytes:
        raise CheckpointError(
            f"{path}: tensor {name!r} takes {end - begin} bytes; {dtype} of shape {short(list(shape))} needs {nbytes}."
        )
    return _Claim(TensorInfo(name, shape, dtype, nbytes), begin, end)


def _check_integers(path: Path, name: str, field: str, value: Any) -> tuple[int, ...]:
    if not isinstance(value, list) or not all(type(item) is int and 0 <= item < _MAX_INTEGER for item in value):
        raise CheckpointError(
            f"{path}: tensor {name!r} has {field} {short(value)}; expected whole numbers of at least 0."
        )
    return tuple(value)


def _count_bytes(path: Path, name: str, shape: tuple[int, ...], scheme: Scheme) -> int:
    num_blocks, rest = divmod(math.prod(shape), scheme.block_size)
    if rest:
        raise CheckpointError(f"{path}: tensor {name!r} of {scheme.name} does not fill whole bytes.")
    return num_blocks * scheme.block_bytes
