"""Small files of PyTorch as bytes, sound or broken: pickles put together from opcodes, archives record by record.

Every header of an archive can be changed on its way: `local` and `central` are fields that replace the true ones.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

ORDERED_DICT = b"ccollections\nOrderedDict\n)R"
LOCAL = ("magic", "version", "flags", "method", "time", "date", "crc", "packed", "nbytes", "name_size", "extra_size")
CENTRAL = (
    *("magic", "made_by", "version", "flags", "method", "time", "date", "crc", "packed", "nbytes", "name_size"),
    *("extra_size", "note_size", "disk", "internal", "external", "header"),
)


def text(value: str | bytes) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return b"X" + struct.pack("<I", len(raw)) + raw


def number(value: int) -> bytes:
    if -(1 << 31) <= value < 1 << 31:
        return b"J" + struct.pack("<i", value)
    raw = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
    return b"\x8a" + bytes([len(raw)]) + raw


def numbers(values: Sequence[int]) -> bytes:
    return b"(" + b"".join(map(number, values)) + b"t"


def storage(key: str = "0", numel: int = 6, kind: str = "torch\nFloatStorage") -> bytes:
    return b"(" + text("storage") + f"c{kind}\n".encode() + text(key) + text("cpu") + number(numel) + b"tQ"


def tensor(
    shape: Sequence[int] = (2, 3),
    strides: Sequence[int] = (3, 1),
    *,
    first: int = 0,
    stored: bytes | None = None,
    hooks: bytes = ORDERED_DICT,
    more: bytes = b"",
) -> bytes:
    """The call that makes a tensor. `more` are opcodes behind the last argument."""
    arguments = (stored or storage()) + number(first) + numbers(shape) + numbers(strides) + b"\x89" + hooks + more
    return b"ctorch._utils\n_rebuild_tensor_v2\n(" + arguments + b"tR"


def state_dict(items: Mapping[str, bytes], *, end: bytes = b".") -> bytes:
    return b"\x80\x02}(" + b"".join(text(name) + value for name, value in items.items()) + b"u" + end


@dataclass(frozen=True, slots=True)
class Entry:
    """A record, and what its two headers say otherwise."""

    name: str
    data: bytes
    local: Mapping[str, Any] = field(default_factory=dict)
    central: Mapping[str, Any] = field(default_factory=dict)
    local_name: str | None = None
    local_extra: bytes = b""
    central_extra: bytes = b""
    behind: bytes = b""  # a descriptor, or what does not belong there


def archive(entries: Sequence[Entry], *, end: Mapping[str, int] | None = None, tail: bytes = b"") -> bytes:
    raw, directory = b"", b""
    for entry in entries:
        header = len(raw)
        name = entry.name.encode()
        size, crc = len(entry.data), zlib.crc32(entry.data)
        true = {"crc": crc, "packed": size, "nbytes": size, "version": 20, "header": header}
        own_name = name if entry.local_name is None else entry.local_name.encode()
        fields = dict.fromkeys(LOCAL, 0) | true | {"magic": b"PK\x03\x04", "name_size": len(own_name)}
        fields |= {"extra_size": len(entry.local_extra), **entry.local}
        raw += struct.pack("<4s5H3I2H", *(fields[key] for key in LOCAL)) + own_name + entry.local_extra
        raw += entry.data + entry.behind
        fields = dict.fromkeys(CENTRAL, 0) | true | {"magic": b"PK\x01\x02", "name_size": len(name)}
        fields |= {"extra_size": len(entry.central_extra), **entry.central}
        directory += struct.pack("<4s6H3I5H2I", *(fields[key] for key in CENTRAL)) + name + entry.central_extra
    last = {"disk": 0, "first_disk": 0, "here": len(entries), "count": len(entries), "nbytes": len(directory)}
    last |= {"begin": len(raw), "note_size": len(tail), **(end or {})}
    return raw + directory + struct.pack("<4s4H2IH", b"PK\x05\x06", *last.values()) + tail


def files(pickle: bytes | None = None, data: bytes = bytes(range(24)), **changes: Mapping[str, Any]) -> list[Entry]:
    """The entries of a sound file of one tensor; `changes` are arguments of an entry by its last name."""
    pickle = state_dict({"a": tensor()}) if pickle is None else pickle
    contents = {"data.pkl": pickle, "byteorder": b"little", "data/0": data, "version": b"3\n"}
    keys = {"data.pkl": "data_pkl", "byteorder": "byteorder", "data/0": "storage", "version": "version"}
    return [
        Entry(**{"name": f"m/{name}", "data": raw, **changes.get(keys[name], {})}) for name, raw in contents.items()
    ]


def file_of(pickle: bytes | None = None, data: bytes = bytes(range(24)), **changes: Mapping[str, Any]) -> bytes:
    return archive(files(pickle, data, **changes))
