"""The few messages of ONNX that an exported model is made of, as bytes of protocol buffers.

A message is a list of (field number, value): whole numbers become varints, floats four bytes, text and messages bytes
with their length. Nothing is read here. Source: onnx.proto of ONNX, whose field numbers these are.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

Field = tuple[int, "int | float | str | bytes"]
AttributeValue = int | float | str | Sequence[int]

FLOAT, INT64, BOOL, DOUBLE = 1, 7, 9, 11
IR_VERSION: Final = 9
OPSET: Final = 18
_EXTERNAL = 1


def message(fields: Iterable[Field]) -> bytes:
    """The bytes of a message."""
    parts: list[bytes] = []
    for number, value in fields:
        if isinstance(value, float):
            parts += [_varint(number << 3 | 5), struct.pack("<f", value)]
        elif isinstance(value, int):
            parts += [_varint(number << 3), _varint(value & 0xFFFFFFFFFFFFFFFF)]
        else:
            raw = value.encode() if isinstance(value, str) else value
            parts += [_varint(number << 3 | 2), _varint(len(raw)), raw]
    return b"".join(parts)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def node(op: str, inputs: Sequence[str], outputs: Sequence[str], attributes: Mapping[str, AttributeValue]) -> bytes:
    """A NodeProto of the standard domain."""
    fields: list[Field] = [(1, name) for name in inputs]
    fields += [(2, name) for name in outputs]
    fields += [(3, outputs[0]), (4, op)]
    return message([*fields, *((5, _attribute(name, value)) for name, value in attributes.items())])


def _attribute(name: str, value: AttributeValue) -> bytes:
    if isinstance(value, float):
        return message([(1, name), (2, value), (20, 1)])
    if isinstance(value, int):
        return message([(1, name), (3, value), (20, 2)])
    if isinstance(value, str):
        return message([(1, name), (4, value), (20, 3)])
    return message([(1, name), *((8, item) for item in value), (20, 7)])


def constant(name: str, kind: int, dims: Sequence[int], raw: bytes) -> bytes:
    """A TensorProto that holds its numbers."""
    return message([*((1, dim) for dim in dims), (2, kind), (8, name), (9, raw)])


def external(name: str, dims: Sequence[int], location: str, offset: int, length: int) -> bytes:
    """A TensorProto of float32 whose numbers are in another file."""
    where = {"location": location, "offset": str(offset), "length": str(length)}
    entries: list[Field] = [(13, message([(1, key), (2, value)])) for key, value in where.items()]
    return message([*((1, dim) for dim in dims), (2, FLOAT), (8, name), *entries, (14, _EXTERNAL)])


def value_info(name: str, kind: int, dims: Sequence[int | str]) -> bytes:
    """A ValueInfoProto: an input or output; a dimension that varies has a name."""
    shape = message([(1, message([(1 if isinstance(dim, int) else 2, dim)])) for dim in dims])
    return message([(1, name), (2, message([(1, message([(1, kind), (2, shape)]))]))])


def model(graph: bytes, metadata: Mapping[str, str], producer: tuple[str, str]) -> bytes:
    """A ModelProto."""
    fields: list[Field] = [(1, IR_VERSION), (2, producer[0]), (3, producer[1]), (7, graph)]
    fields.append((8, message([(1, ""), (2, OPSET)])))
    return message([*fields, *((14, message([(1, key), (2, value)])) for key, value in metadata.items())])
