"""Writes a GGUF file, version 3, in one pass: the header from shapes alone, then one tensor after the other.

Types of values follow from Python's: bool, text, lists of text, int as uint32 (or as the first of int32, uint64 and
int64 that holds it), float as float32; numpy's scalars and one-dimensional arrays keep their own. Equal input gives
equal bytes. Source: the format description of ggml.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pelton.checkpoint.gguf.container import MAX_KEY_BYTES, is_alignment
from pelton.checkpoint.gguf.string_array import StringArray
from pelton.checkpoint.outgoing import Outgoing
from pelton.checkpoint.scheme import READ_ONLY, get_scheme
from pelton.checkpoint.tensor_file import write_tensor_file
from pelton.errors import CheckpointError

GgufValue = bool | int | float | str | np.generic | npt.NDArray[Any] | Sequence[str]

ALIGNMENT: Final = 32
_BOOL, _STRING, _ARRAY, _FLOAT32 = 7, 8, 9, 6
_TYPES: Final = {"u1": 0, "i1": 1, "u2": 2, "i2": 3, "u4": 4, "i4": 5, "f4": 6, "b1": 7, "u8": 10, "i8": 11, "f8": 12}
_MAX_NAME_BYTES = 63
_MAX_AXES = 4


def write_gguf(
    path: Path,
    metadata: Mapping[str, GgufValue],
    tensors: Sequence[Outgoing],
    *,
    on_bytes: Callable[[int], None] = lambda num_bytes: None,
) -> None:
    """Write the file anew. `on_bytes` hears of each tensor's bytes when they are written.

    Raises CheckpointError for a value, name or scheme that GGUF cannot hold, and OSError if the disk refuses.
    """
    header = encode_header(path, metadata, tensors)
    write_behind(path, header, tensors, alignment=get_alignment(path, metadata), on_bytes=on_bytes)


def write_behind(
    path: Path,
    header: bytes,
    tensors: Sequence[Outgoing],
    *,
    alignment: int = ALIGNMENT,
    on_bytes: Callable[[int], None] = lambda num_bytes: None,
    is_resumable: bool = False,
) -> None:
    """A header that is there already, and the tensors that it describes, in its order. Raises as `write_gguf` does."""
    write_tensor_file(path, header, tensors, alignment=alignment, on_bytes=on_bytes, is_resumable=is_resumable)


def encode_header(path: Path, metadata: Mapping[str, GgufValue], tensors: Sequence[Outgoing]) -> bytes:
    """All bytes before the first tensor's."""
    alignment = get_alignment(path, metadata)
    parts = [b"GGUF", struct.pack("<IQQ", 3, len(tensors), len(metadata))]
    for key, value in metadata.items():
        if not key or not key.isascii() or not key.isprintable() or len(key) > MAX_KEY_BYTES:
            raise CheckpointError(f"{path}: the metadata key {key[:100]!r}: keys are printable ASCII and not empty.")
        parts += [_text(path, key, key), _encode_value(path, key, value)]
    offset, names = 0, set[str]()
    for tensor in tensors:
        _check(path, tensor, names)
        scheme = get_scheme(tensor.scheme)
        dims = tensor.shape[::-1] or (1,)
        parts += [_text(path, "a tensor's name", tensor.name), struct.pack(f"<I{len(dims)}q", len(dims), *dims)]
        parts.append(struct.pack("<IQ", scheme.gguf_id or 0, offset))
        offset += _pad(tensor.nbytes, alignment)
    header = b"".join(parts)
    return header + bytes(_pad(len(header), alignment) - len(header))


def get_alignment(path: Path, metadata: Mapping[str, GgufValue]) -> int:
    """What the metadata says, or what holds where it says nothing."""
    alignment = metadata.get("general.alignment", ALIGNMENT)
    if not isinstance(alignment, int | np.integer) or not is_alignment(int(alignment)):
        raise CheckpointError(f"{path}: general.alignment is {alignment!r}; files cannot be written like that.")
    return int(alignment)


def _check(path: Path, tensor: Outgoing, names: set[str]) -> None:
    if tensor.name in names:
        raise CheckpointError(f"{path}: two tensors are called {tensor.name!r}.")
    names.add(tensor.name)
    if get_scheme(tensor.scheme).gguf_id is None or tensor.scheme in READ_ONLY:
        raise CheckpointError(
            f"{path}: tensor {tensor.name!r} is stored as {tensor.scheme}, which GGUF files do not hold."
        )
    if len(tensor.name.encode()) > _MAX_NAME_BYTES or len(tensor.shape) > _MAX_AXES or 0 in tensor.shape:
        raise CheckpointError(
            f"{path}: tensor {tensor.name!r} has shape {list(tensor.shape)}; GGUF takes names of up to "
            f"{_MAX_NAME_BYTES} bytes and up to {_MAX_AXES} axes of at least 1."
        )


def _encode_value(path: Path, key: str, value: GgufValue) -> bytes:
    if isinstance(value, str):
        return struct.pack("<I", _STRING) + _text(path, key, value)
    if isinstance(value, StringArray):
        return struct.pack("<IIQ", _ARRAY, _STRING, len(value)) + value.stored
    if isinstance(value, np.ndarray):
        if value.ndim != 1:
            raise CheckpointError(f"{path}: {key} is an array of {value.ndim} axes; GGUF has arrays of one.")
        little = value.astype(value.dtype.newbyteorder("<"), copy=False)
        return struct.pack("<IIQ", _ARRAY, _type_of(path, key, value.dtype), len(value)) + little.tobytes()
    if isinstance(value, Sequence):
        if not all(isinstance(item, str) for item in value):
            raise CheckpointError(f"{path}: {key} is a list of more than text. Give numbers as an array of numpy.")
        return struct.pack("<IIQ", _ARRAY, _STRING, len(value)) + b"".join(_text(path, key, item) for item in value)
    scalar = _as_scalar(path, key, value)
    return struct.pack("<I", _type_of(path, key, scalar.dtype)) + scalar.tobytes()


def _as_scalar(path: Path, key: str, value: bool | int | float | np.generic) -> np.generic:
    if isinstance(value, np.generic):
        return value
    if isinstance(value, bool):
        return np.bool_(value)
    if isinstance(value, float):
        return np.float32(value)
    for kind in (np.uint32, np.int32, np.uint64, np.int64):
        if np.iinfo(kind).min <= value <= np.iinfo(kind).max:
            return kind(value)
    raise CheckpointError(f"{path}: {key} is {value}, which takes more than 64 bits.")


def _type_of(path: Path, key: str, dtype: np.dtype[Any]) -> int:
    kind = _TYPES.get(f"{dtype.kind}{dtype.itemsize}")
    if kind is None:
        raise CheckpointError(f"{path}: {key} is of the type {dtype}, which GGUF does not have.")
    return kind


def _text(path: Path, key: str, text: str) -> bytes:
    try:
        raw = text.encode("utf-8")
    except UnicodeEncodeError:
        raise CheckpointError(f"{path}: {key} is text that UTF-8 cannot write: {text[:100]!r}.") from None
    return struct.pack("<Q", len(raw)) + raw


def _pad(num_bytes: int, alignment: int) -> int:
    return -(-num_bytes // alignment) * alignment
