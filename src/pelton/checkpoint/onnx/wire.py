"""Protocol buffers read strictly: a message is fields that its table allows, each once unless it may repeat.

Readers of protocol buffers skip what they do not know and let a later value replace an earlier one, so two programs
may read two models in one file. Here both are errors. Nothing is copied: text and messages are places in the file.
The number of fields of a whole file is bounded, and so is the time that reading it takes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from pelton.errors import CheckpointError

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_NAMES = {VARINT: "a whole number", FIXED64: "eight bytes", BYTES: "bytes", FIXED32: "four bytes"}
_MAX_FIELDS: Final = 2_000_000
_MAX_TEXT_BYTES: Final = 4096


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of message: which wire types a field may have, by its number, and which may repeat."""

    name: str
    wires: Mapping[int, tuple[int, ...]]
    repeated: frozenset[int]
    most: int = 10_000  # fields in one message


@dataclass(frozen=True, slots=True)
class Field:
    """One field. `value` is that of a varint; other values are the bytes [begin, end) of the file."""

    number: int
    wire: int
    value: int
    begin: int
    end: int


class Wire:
    """The bytes of a file, and how many fields have been read of it."""

    def __init__(self, data: memoryview, where: str) -> None:
        self._data = data
        self.where = where
        self._num_fields = 0

    def fields(self, kind: Kind, begin: int, end: int) -> Iterator[Field]:
        """The fields of the message in [begin, end), in order. Raises CheckpointError."""
        seen: set[int] = set()
        position, most = begin, self._num_fields + kind.most
        while position < end:
            self._num_fields += 1
            if self._num_fields > min(most, _MAX_FIELDS):
                raise CheckpointError(
                    f"{self.where}: byte {position}: a {kind.name} has more than {kind.most} fields, or the file more "
                    f"than {_MAX_FIELDS}. It is no language model."
                )
            start = position
            key, position = self._varint(position, end)
            number, wire = key >> 3, key & 7
            if wire not in kind.wires.get(number, ()):
                raise CheckpointError(
                    f"{self.where}: byte {start}: {kind.name} has field {number} as {_NAMES.get(wire, 'a group')}, "
                    "which ONNX does not define. It is damaged, or of a newer version of ONNX."
                )
            if number in seen and number not in kind.repeated:
                raise CheckpointError(f"{self.where}: byte {start}: {kind.name} has field {number} twice.")
            seen.add(number)
            field = self._value(number, wire, position, end)
            position = field.end
            yield field

    def collect(self, kind: Kind, begin: int, end: int) -> dict[int, list[Field]]:
        """As `fields`, by number."""
        found: dict[int, list[Field]] = {}
        for field in self.fields(kind, begin, end):
            found.setdefault(field.number, []).append(field)
        return found

    def _value(self, number: int, wire: int, begin: int, end: int) -> Field:
        if wire == VARINT:
            value, behind = self._varint(begin, end)
            return Field(number, wire, value, begin, behind)
        length = 8 if wire == FIXED64 else 4
        if wire == BYTES:
            length, begin = self._varint(begin, end)
        if length > end - begin:
            raise CheckpointError(
                f"{self.where}: byte {begin}: field {number} claims {length} bytes, and {end - begin} are there. "
                "It is truncated or damaged; fetch it again."
            )
        return Field(number, wire, 0, begin, begin + length)

    def _varint(self, position: int, end: int) -> tuple[int, int]:
        value = shift = 0
        start = position
        while position < end and shift < 70:
            byte = self._data[position]
            position += 1
            value |= (byte & 127) << shift
            if byte < 128:
                if value >> 64:
                    break
                return value, position
            shift += 7
        raise CheckpointError(f"{self.where}: byte {start}: has a number that does not end. It is damaged.")

    def text(self, field: Field, *, max_bytes: int = _MAX_TEXT_BYTES) -> str:
        """A field of text."""
        if field.end - field.begin > max_bytes:
            raise CheckpointError(
                f"{self.where}: byte {field.begin}: has text of {field.end - field.begin} bytes; at most {max_bytes}."
            )
        try:
            return str(self._data[field.begin : field.end], "utf-8")
        except UnicodeDecodeError:
            raise CheckpointError(f"{self.where}: byte {field.begin}: has text that is not UTF-8.") from None

    def integers(self, fields: list[Field], limit: int) -> list[int]:
        """Repeated signed integers, one by one or packed. Raises CheckpointError for more than `limit`."""
        values: list[int] = []
        for field in fields:
            if field.wire == VARINT:
                values.append(field.value)
            else:
                position = field.begin
                while position < field.end and len(values) <= limit:
                    value, position = self._varint(position, field.end)
                    values.append(value)
            if len(values) > limit:
                raise CheckpointError(f"{self.where}: byte {field.begin}: has more than {limit} numbers.")
        return [signed(value) for value in values]


def signed(value: int) -> int:
    """The int64 that a varint stands for.

    >>> signed(3), signed((1 << 64) - 1)
    (3, -1)
    """
    return value - (1 << 64) if value >> 63 else value
