"""Writes PyTorch's format: a zip archive of a pickle and one record for each tensor, without torch and without pickle.

The pickle is put together from opcodes: a dict whose values are calls of `torch._utils._rebuild_tensor_v2` (`_v3` for
dtypes without a storage class), so that `torch.load(weights_only=True)` reads it. Records are stored, aligned to 64
bytes and one behind another; a checksum is written over its place when the bytes of its record are through, so one
tensor is in memory at a time. Equal input gives equal bytes: times and ids are zero.
Source: what `torch.save` writes, and APPNOTE 6.3 for zip64.
"""

from __future__ import annotations

import json
import math
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

import numpy as np

from pelton.checkpoint.hf.safetensors_writer import MAX_SHARD_BYTES, split
from pelton.checkpoint.outgoing import Outgoing
from pelton.checkpoint.pytorch.rebuild import DTYPES, STORAGES
from pelton.checkpoint.pytorch.state_dict import MAX_PICKLE_BYTES
from pelton.errors import CheckpointError

INDEX: Final = "pytorch_model.bin.index.json"
_ROOT = "pytorch_model"
_ALIGNMENT = 64
_LIMIT = 0xFFFFFFFF
_BATCH = 1000  # names set by one opcode, as Python's pickler has it
_IS_UTF8 = 1 << 11
_CRC_AT = 14  # in a local header
_STORAGE_OF = {scheme: name for name, scheme in STORAGES.items()}
_DTYPE_OF = {scheme: name for name, scheme in DTYPES.items()}


def write_pytorch(
    directory: Path,
    tensors: Sequence[Outgoing],
    *,
    max_shard_bytes: int = MAX_SHARD_BYTES,
    on_bytes: Callable[[int], None] = lambda num_bytes: None,
) -> None:
    """pytorch_model.bin in `directory`, or shards and an index. `on_bytes` hears of each tensor's bytes.

    Raises CheckpointError for a tensor that PyTorch has no dtype for, and OSError if the disk refuses.
    """
    shards = split(tensors, max_shard_bytes)
    if len(shards) == 1:
        write_pytorch_file(directory / "pytorch_model.bin", shards[0], on_bytes=on_bytes)
        return
    owners: dict[str, str] = {}
    for number, shard in enumerate(shards, 1):
        name = f"pytorch_model-{number:05d}-of-{len(shards):05d}.bin"
        write_pytorch_file(directory / name, shard, on_bytes=on_bytes)
        owners |= {tensor.name: name for tensor in shard}
    total = {"total_size": sum(tensor.nbytes for tensor in tensors)}
    index = json.dumps({"metadata": total, "weight_map": owners}, indent=2, ensure_ascii=False)
    (directory / INDEX).write_text(index + "\n", encoding="utf-8")


def write_pytorch_file(
    path: Path, tensors: Sequence[Outgoing], *, on_bytes: Callable[[int], None] = lambda num_bytes: None
) -> None:
    """One file, written anew. Raises as `write_pytorch` does."""
    pickle = encode_state_dict(path, tensors)
    with path.open("xb") as file:
        records = [_write_record(file, "data.pkl", len(pickle), iter([pickle]))]
        records.append(_write_record(file, "byteorder", 6, iter([b"little"])))
        for key, tensor in enumerate(tensors):
            records.append(_write_record(file, f"data/{key}", tensor.nbytes, _bytes_of(path, tensor)))
            on_bytes(tensor.nbytes)
        records.append(_write_record(file, "version", 2, iter([b"3\n"])))
        _write_directory(file, records)


def encode_state_dict(path: Path, tensors: Sequence[Outgoing]) -> bytes:
    """The pickle: tensor number k lies in the record data/k."""
    names = [tensor.name for tensor in tensors]
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise CheckpointError(f"{path}: two tensors are called {twice!r}.")
    parts = [b"\x80\x02}"]
    for first in range(0, len(tensors), _BATCH):
        items = enumerate(tensors[first : first + _BATCH], first)
        parts.append(b"(" + b"".join(_text(tensor.name) + _call(path, key, tensor) for key, tensor in items) + b"u")
    raw = b"".join([*parts, b"."])
    if len(raw) > MAX_PICKLE_BYTES:
        raise CheckpointError(f"{path}: {len(tensors)} tensors are too many for one file. Write smaller shards.")
    return raw


def _call(path: Path, key: int, tensor: Outgoing) -> bytes:
    """The opcodes that make the tensor of storage `key`."""
    storage, dtype = _STORAGE_OF.get(tensor.scheme), _DTYPE_OF.get(tensor.scheme)
    if dtype is None:
        raise CheckpointError(
            f"{path}: tensor {tensor.name!r} is stored as {tensor.scheme}, which PyTorch's files do not have."
        )
    shape = tensor.shape
    if tensor.scheme == "F4":  # torch counts bytes, each of which holds two
        shape = (*shape[:-1], shape[-1] // 2)
    strides = tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))
    kind = f"ctorch\n{storage}\n" if storage else "ctorch.storage\nUntypedStorage\n"
    numel = math.prod(shape) if storage else tensor.nbytes
    reference = b"(" + _text("storage") + kind.encode() + _text(str(key)) + _text("cpu") + _integer(numel) + b"tQ"
    last = b"" if storage else f"ctorch\n{dtype}\n".encode()
    arguments = reference + _integer(0) + _tuple(shape) + _tuple(strides) + b"\x89ccollections\nOrderedDict\n)R" + last
    version = 2 if storage else 3
    return f"ctorch._utils\n_rebuild_tensor_v{version}\n(".encode() + arguments + b"tR"


def _text(text: str) -> bytes:
    raw = text.encode("utf-8")
    return b"X" + struct.pack("<I", len(raw)) + raw


def _integer(value: int) -> bytes:
    if value < 1 << 31:
        return b"J" + struct.pack("<i", value)
    return b"\x8a\x08" + struct.pack("<q", value)


def _tuple(values: Sequence[int]) -> bytes:
    return b"(" + b"".join(_integer(value) for value in values) + b"t"


def _bytes_of(path: Path, tensor: Outgoing) -> Iterator[bytes | memoryview]:
    rows = tensor.make()
    if rows.nbytes != tensor.nbytes:
        raise CheckpointError(
            f"{path}: tensor {tensor.name!r} has {rows.nbytes} bytes; {tensor.scheme} of shape {list(tensor.shape)} "
            f"takes {tensor.nbytes}."
        )
    yield np.ascontiguousarray(rows).reshape(-1).data


@dataclass(frozen=True, slots=True)
class _Written:
    """A record that lies in the file."""

    name: bytes
    crc: int
    nbytes: int
    header: int


def _write_record(file: BinaryIO, name: str, nbytes: int, pieces: Iterator[bytes | memoryview]) -> _Written:
    header, raw_name = file.tell(), f"{_ROOT}/{name}".encode("ascii")
    large = struct.pack("<2H2Q", 1, 16, nbytes, nbytes) if nbytes >= _LIMIT else b""
    unpadded = header + 30 + len(raw_name) + len(large) + 4
    padding = -unpadded % _ALIGNMENT
    extra = large + struct.pack("<2sH", b"FB", padding) + b"Z" * padding
    size = min(nbytes, _LIMIT)
    file.write(_local_header(0, size, len(raw_name), len(extra)) + raw_name + extra)
    crc = 0
    for piece in pieces:
        crc = zlib.crc32(piece, crc)
        file.write(piece)
    end = file.tell()
    file.seek(header + _CRC_AT)
    file.write(struct.pack("<I", crc))
    file.seek(end)
    return _Written(raw_name, crc, nbytes, header)


def _local_header(crc: int, size: int, name_size: int, extra_size: int) -> bytes:
    version = 45 if size == _LIMIT else 20
    return struct.pack("<4s5H3I2H", b"PK\x03\x04", version, _IS_UTF8, 0, 0, 0, crc, size, size, name_size, extra_size)


def _write_directory(file: BinaryIO, records: Sequence[_Written]) -> None:
    begin = file.tell()
    for record in records:
        large = [value for value in (record.nbytes, record.nbytes, record.header) if value >= _LIMIT]
        extra = struct.pack(f"<2H{len(large)}Q", 1, 8 * len(large), *large) if large else b""
        version = 45 if large else 20
        size, header = min(record.nbytes, _LIMIT), min(record.header, _LIMIT)
        sizes = (record.crc, size, size, len(record.name), len(extra))
        entry = (b"PK\x01\x02", version, version, _IS_UTF8, 0, 0, 0, *sizes, 0, 0, 0, 0, header)
        file.write(struct.pack("<4s6H3I5H2I", *entry) + record.name + extra)
    at, count = file.tell(), len(records)
    size = at - begin
    file.write(struct.pack("<4sQ2H2I4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, count, count, size, begin))
    file.write(struct.pack("<4sIQI", b"PK\x06\x07", 0, at, 1))
    few = min(count, 0xFFFF)
    file.write(struct.pack("<4s4H2IH", b"PK\x05\x06", 0, 0, few, few, min(size, _LIMIT), min(begin, _LIMIT), 0))
