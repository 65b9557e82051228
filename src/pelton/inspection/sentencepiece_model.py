"""The pieces of a SentencePiece `tokenizer.model`, for comparison: text by id, and nothing else of the file.

A protobuf message: field 1, repeated, is a piece, whose field 1 is its text. Every length is held against the bytes
that are left. Source: sentencepiece_model.proto.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pelton.checkpoint.mapped_file import MappedFile
from pelton.errors import CheckpointError

_MAX_FILE_BYTES = 64 << 20
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


def read_pieces(path: Path) -> list[str]:
    """All pieces in the order of their ids. Raises CheckpointError for what is no such file."""
    file = MappedFile(path)
    if file.size > _MAX_FILE_BYTES:
        raise CheckpointError(f"{path}: has {file.size} bytes; at most {_MAX_FILE_BYTES} are read.")
    pieces = []
    for number, message in _fields(file.data.tobytes(), path):
        if number == 1:
            texts = [value for inner, value in _fields(message, path) if inner == 1]
            pieces.append(texts[-1].decode("utf-8", "replace") if texts else "")
    return pieces


def _fields(raw: bytes, path: Path) -> Iterator[tuple[int, bytes]]:
    """Number and content of each field that has a length; others are stepped over."""
    at = 0
    while at < len(raw):
        tag, at = _read_varint(raw, at, path)
        kind = tag & 7
        if kind == _VARINT:
            _, at = _read_varint(raw, at, path)
            continue
        if kind == _BYTES:
            length, at = _read_varint(raw, at, path)
        elif kind in (_FIXED32, _FIXED64):
            length = 4 if kind == _FIXED32 else 8
        else:
            raise CheckpointError(f"{path}: is not a SentencePiece model: a field of type {kind} at byte {at}.")
        if length > len(raw) - at:
            raise CheckpointError(f"{path}: a field of {length} bytes at {at}, and {len(raw) - at} are left.")
        if kind == _BYTES:
            yield tag >> 3, raw[at : at + length]
        at += length


def _read_varint(raw: bytes, at: int, path: Path) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(raw):
            raise CheckpointError(f"{path}: ends in the middle of a number.")
        byte = raw[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise CheckpointError(f"{path}: a number of more than 64 bits at byte {at}.")
