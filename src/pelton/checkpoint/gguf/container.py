"""The GGUF container, versions 2 and 3: metadata and the places of tensors. No meaning is given to any key.

Invariant: every length is compared with the bytes that are left before it is used, in unbounded integers, and every
tensor lies inside the file, aligned, directly behind the one before it. Nothing is allocated for a claim of the file.
The checks are stricter than the specification wherever the files that exist allow it.
Costs one pass over the metadata: 0.1 s for 262,144 tokens. Source: the format description and reader of ggml.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from pelton.checkpoint.contract import TensorInfo
from pelton.checkpoint.gguf.string_array import StringArray, walk
from pelton.checkpoint.mapped_file import MappedFile
from pelton.checkpoint.scheme import BY_GGUF_ID, Scheme
from pelton.errors import CheckpointError

Value = bool | int | float | str | npt.NDArray[np.generic] | StringArray

_MAGIC = b"GGUF"
_BIG_ENDIAN = "is a big-endian GGUF file; only little-endian files can be read. Convert it first."
_VERSIONS = (2, 3)
MAX_KEY_BYTES = 65535
_MAX_NAME_BYTES = 63
_MAX_STRING_BYTES = 1 << 30
_MAX_ARRAY = 1 << 30
_MAX_DIMS = 4
_MIN_KEY_VALUE_BYTES = 8 + 1 + 4 + 1
_MIN_TENSOR_BYTES = 8 + 1 + 4 + 8 + 4 + 8
_DEFAULT_ALIGNMENT = 32
_MIN_ALIGNMENT, _MAX_ALIGNMENT = 8, 4096

_STRING, _ARRAY, _BOOL, _FLOAT32, _UINT32 = 8, 9, 7, 6, 4
_NUMBER_TYPES = {0: "<u1", 1: "<i1", 2: "<u2", 3: "<i2", 4: "<u4", 5: "<i4", 6: "<f4", 10: "<u8", 11: "<i8", 12: "<f8"}


@dataclass(frozen=True, slots=True)
class GgufTensor:
    """A tensor and where its bytes are."""

    info: TensorInfo
    file: MappedFile
    offset: int  # in the file


@dataclass(frozen=True, slots=True)
class Container:
    """A parsed file: values by key, tensors by name in file order. Of a split model, all files seen as one."""

    file: MappedFile  # the first, which holds the metadata
    version: int
    metadata: Mapping[str, Value]
    tensors: Mapping[str, GgufTensor]
    files: tuple[MappedFile, ...]


class _Cursor:
    """Reads forward through the file and never past its end."""

    def __init__(self, path: Path, data: memoryview) -> None:
        self.path = path
        self.data = data
        self.offset = 0

    @property
    def left(self) -> int:
        return len(self.data) - self.offset

    def error(self, message: str) -> CheckpointError:
        return CheckpointError(f"{self.path}: {message}")

    def take(self, num_bytes: int, what: str) -> memoryview:
        if num_bytes > self.left:
            raise self.error(
                f"{what} needs {num_bytes} bytes at offset {self.offset} and only {self.left} are left. "
                "The file is truncated or damaged; fetch it again."
            )
        begin = self.offset
        self.offset += num_bytes
        return self.data[begin : self.offset]

    def unsigned(self, num_bytes: int, what: str) -> int:
        return int.from_bytes(self.take(num_bytes, what), "little")

    def text(self, what: str, max_bytes: int) -> bytes:
        length = self.unsigned(8, f"the length of {what}")
        if length > max_bytes:
            raise self.error(f"{what} claims {length} bytes, more than the {max_bytes} allowed.")
        return bytes(self.take(length, what))


@dataclass(frozen=True, slots=True)
class Header:
    """What stands before the tensors: values by key, and the tensors in file order, their places not yet checked."""

    version: int
    metadata: Mapping[str, Value]
    infos: tuple[TensorInfo, ...]


def read_container(path: Path) -> Container:
    """Map and check a GGUF file. Raises CheckpointError; reads no tensor data."""
    file = MappedFile(path)
    cursor = _Cursor(file.path, file.data.data)
    version, metadata, claims = _parse(cursor)
    tensors = _place_tensors(cursor, file, claims, _get_alignment(cursor, metadata))
    return Container(file, version, metadata, tensors, (file,))


def parse_header(path: Path, raw: memoryview) -> Header:
    """A header without its tensors, in the same way. `path` is where it came from, for messages."""
    version, metadata, claims = _parse(_Cursor(path, raw))
    return Header(version, metadata, tuple(claim.info for claim in claims))


def _parse(cursor: _Cursor) -> tuple[int, dict[str, Value], list[_Claim]]:
    version, num_tensors, num_values = _read_header(cursor)
    metadata: dict[str, Value] = {}
    for _ in range(num_values):
        key = _read_key(cursor)
        if key in metadata:
            raise cursor.error(f"the metadata key {key!r} stands in the file twice.")
        metadata[key] = _read_value(cursor, key)
    _get_alignment(cursor, metadata)
    return version, metadata, [_read_tensor_info(cursor) for _ in range(num_tensors)]


def _read_header(cursor: _Cursor) -> tuple[int, int, int]:
    magic = bytes(cursor.take(4, "the magic"))
    if magic == _MAGIC[::-1]:
        raise cursor.error(_BIG_ENDIAN)
    if magic != _MAGIC:
        raise cursor.error(f"begins with {magic!r}, not with {_MAGIC!r}: it is not a GGUF file.")
    version = cursor.unsigned(4, "the version")
    if version & 0xFFFF == 0 and version:
        raise cursor.error(_BIG_ENDIAN)
    if version not in _VERSIONS:
        raise cursor.error(f"is GGUF version {version}; versions 2 and 3 can be read.")
    num_tensors = cursor.unsigned(8, "the number of tensors")
    num_values = cursor.unsigned(8, "the number of metadata values")
    if num_tensors * _MIN_TENSOR_BYTES + num_values * _MIN_KEY_VALUE_BYTES > cursor.left:
        raise cursor.error(
            f"claims {num_tensors} tensors and {num_values} metadata values, more than {cursor.left} bytes can hold."
        )
    return version, num_tensors, num_values


def _read_key(cursor: _Cursor) -> str:
    raw = cursor.text("a metadata key", MAX_KEY_BYTES)
    if not raw or not raw.isascii() or not raw.decode("ascii").isprintable():
        raise cursor.error(f"has the metadata key {raw[:100]!r}; keys are printable ASCII and not empty.")
    return raw.decode("ascii")


def _read_value(cursor: _Cursor, key: str) -> Value:
    kind = cursor.unsigned(4, f"the type of {key!r}")
    if kind == _STRING:
        raw = cursor.text(f"the value of {key!r}", _MAX_STRING_BYTES)
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError:
            raise cursor.error(f"the value of {key!r} is not valid UTF-8.") from None
    if kind == _ARRAY:
        return _read_array(cursor, key)
    if kind == _BOOL:
        value = cursor.unsigned(1, f"the value of {key!r}")
        if value > 1:
            raise cursor.error(f"the value of {key!r} is a boolean of {value}; only 0 and 1 are allowed.")
        return bool(value)
    dtype = np.dtype(_get_number_type(cursor, key, kind))
    number = np.frombuffer(cursor.take(dtype.itemsize, f"the value of {key!r}"), dtype=dtype)[0]
    if kind == _FLOAT32:
        # The shortest decimal of the float32: 1e-06 as in the config.json it came from, not 9.999999974752427e-07.
        return float(str(number))
    return number.item()  # type: ignore[no-any-return]


def _get_number_type(cursor: _Cursor, key: str, kind: int) -> str:
    dtype = _NUMBER_TYPES.get(kind)
    if dtype is None:
        raise cursor.error(f"the value of {key!r} has type {kind}, which GGUF does not have; types go from 0 to 12.")
    return dtype


def _read_array(cursor: _Cursor, key: str) -> Value:
    kind = cursor.unsigned(4, f"the element type of {key!r}")
    count = cursor.unsigned(8, f"the length of {key!r}")
    if kind == _ARRAY:
        raise cursor.error(f"the value of {key!r} is an array of arrays, which no model uses.")
    if count > _MAX_ARRAY:
        raise cursor.error(f"the array {key!r} claims {count} elements, more than the {_MAX_ARRAY} allowed.")
    if kind == _STRING:
        strings = walk(cursor.data, cursor.offset, count, where=f"{cursor.path}: the array {key!r}")
        cursor.offset = strings.end
        return strings
    dtype = np.dtype("<u1" if kind == _BOOL else _get_number_type(cursor, key, kind))
    values = np.frombuffer(cursor.take(count * dtype.itemsize, f"the array {key!r}"), dtype=dtype)
    if kind == _BOOL:
        if values.size and values.max() > 1:
            raise cursor.error(f"the array {key!r} has a boolean that is neither 0 nor 1.")
        return values.astype(np.bool_)
    return values


def _get_alignment(cursor: _Cursor, metadata: Mapping[str, Value]) -> int:
    alignment = metadata.get("general.alignment", _DEFAULT_ALIGNMENT)
    if isinstance(alignment, bool) or not isinstance(alignment, int) or not is_alignment(alignment):
        raise cursor.error(
            f"general.alignment is {alignment!r}; expected a power of two from {_MIN_ALIGNMENT} to {_MAX_ALIGNMENT}."
        )
    return alignment


def is_alignment(number: int) -> bool:
    """Whether tensors may stand at multiples of `number`."""
    return _MIN_ALIGNMENT <= number <= _MAX_ALIGNMENT and number & (number - 1) == 0


@dataclass(frozen=True, slots=True)
class _Claim:
    """A tensor as the file describes it, its offset not yet checked."""

    info: TensorInfo
    offset: int


def _read_tensor_info(cursor: _Cursor) -> _Claim:
    raw = cursor.text("a tensor name", _MAX_NAME_BYTES)
    try:
        name = raw.decode("utf-8")
    except UnicodeDecodeError:
        raise cursor.error(f"has a tensor name that is not valid UTF-8: {raw!r}.") from None
    if not name or not name.isprintable():
        raise cursor.error(f"has the tensor name {name!r}; names are printable and not empty.")
    num_dims = cursor.unsigned(4, f"the number of axes of {name!r}")
    if not 1 <= num_dims <= _MAX_DIMS:
        raise cursor.error(f"tensor {name!r} has {num_dims} axes; 1 to {_MAX_DIMS} are allowed.")
    dims = struct.unpack(f"<{num_dims}q", cursor.take(8 * num_dims, f"the shape of {name!r}"))
    scheme = _get_scheme(cursor, name, cursor.unsigned(4, f"the type of {name!r}"))
    offset = cursor.unsigned(8, f"the offset of {name!r}")
    shape = tuple(reversed(dims))
    return _Claim(TensorInfo(name, shape, scheme.name, _count_bytes(cursor, name, shape, scheme)), offset)


def _get_scheme(cursor: _Cursor, name: str, type_id: int) -> Scheme:
    scheme = BY_GGUF_ID.get(type_id)
    if scheme is None:
        raise cursor.error(
            f"tensor {name!r} has type {type_id}, which is not known here (removed, or of another program's fork). "
            "Use a file with one of the usual quantizations, for example Q4_K_M or Q8_0."
        )
    return scheme


def _count_bytes(cursor: _Cursor, name: str, shape: tuple[int, ...], scheme: Scheme) -> int:
    """The tensor's size in bytes, in integers that cannot overflow."""
    if min(shape) < 1:
        raise cursor.error(f"tensor {name!r} has shape {list(shape)}; every axis must be at least 1.")
    num_blocks, rest = divmod(shape[-1], scheme.block_size)
    if rest:
        raise cursor.error(
            f"tensor {name!r} has rows of {shape[-1]} elements; {scheme.name} needs a multiple of {scheme.block_size}."
        )
    nbytes = num_blocks * scheme.block_bytes
    for length in shape[:-1]:
        nbytes *= length
    return nbytes


def _place_tensors(cursor: _Cursor, file: MappedFile, claims: list[_Claim], alignment: int) -> dict[str, GgufTensor]:
    """Check that the tensors lie one behind the other from the end of the header to the end of the file."""

    def pad(offset: int) -> int:
        return -(-offset // alignment) * alignment

    start = pad(cursor.offset)
    size = len(cursor.data)
    tensors: dict[str, GgufTensor] = {}
    expected = 0
    end = cursor.offset
    for claim in claims:
        info = claim.info
        if info.name in tensors:
            raise cursor.error(f"the tensor {info.name!r} stands in the file twice.")
        if claim.offset != expected:
            raise cursor.error(
                f"tensor {info.name!r} is at offset {claim.offset} of the data, expected {expected}: tensors must "
                f"follow one another, aligned to {alignment}."
            )
        end = start + claim.offset + info.nbytes
        if end > size:
            raise cursor.error(
                f"tensor {info.name!r} ends at byte {end} and the file has {size}. It is truncated; fetch it again."
            )
        tensors[info.name] = GgufTensor(info, file, start + claim.offset)
        expected = pad(claim.offset + info.nbytes)
    if size > pad(end):
        raise cursor.error(f"has {size - pad(end)} bytes behind the last tensor. It is damaged or two files in one.")
    return tensors
