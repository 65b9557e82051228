"""All tensors of one PyTorch file (.bin, .pt, .pth), placed in the mapped file: no torch, no copy, nothing executed.

Invariant: every record of the archive is the pickle, a number about the file, or a storage that a tensor lies in, and
a storage is as large as the pickle says. Two names may lie in one storage: tied weights, which `find_shared` tells.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pelton.checkpoint.contract import TensorInfo
from pelton.checkpoint.fields import short
from pelton.checkpoint.foreign_content import HEAD_BYTES, describe_content
from pelton.checkpoint.mapped_file import MappedFile
from pelton.checkpoint.placed_tensor import PlacedTensor, Record
from pelton.checkpoint.pytorch.archive import read_archive, read_small
from pelton.checkpoint.pytorch.rebuild import Storage, StoredTensor
from pelton.checkpoint.pytorch.state_dict import MAX_PICKLE_BYTES, read_state_dict
from pelton.checkpoint.scheme import SCHEMES
from pelton.errors import CheckpointError

SUFFIXES: Final = (".bin", ".pt", ".pth")
_DATA, _STORAGES = "data.pkl", "data/"
_MAX_SMALL_BYTES = 128
_NOTES = ("version", "byteorder", ".format_version", ".storage_alignment", ".data/serialization_id")
_VERSIONS = (b"2", b"3")
_CONVERT = (
    "Where you trust its author, load it with PyTorch and save the state dict again with torch.save or as safetensors."
)


def read_pytorch(path: Path) -> dict[str, PlacedTensor]:
    """The tensors of the file, in the order of the state dict. Raises CheckpointError; reads no tensor data."""
    file = MappedFile(path)
    _check_kind(file)
    records = _strip_root(file, read_archive(file))
    for name in _NOTES:
        if name in records:
            _check_note(path, name, read_small(file, records, name, _MAX_SMALL_BYTES))
    stored = read_state_dict(read_small(file, records, _DATA, MAX_PICKLE_BYTES), f"{path}: {_DATA}")
    storages: dict[str, Storage] = {}
    placed = {name: _place(file, records, storages, name, tensor) for name, tensor in stored.items()}
    used = {_DATA, *_NOTES, *(f"{_STORAGES}{key}" for key in storages)}
    strangers = [name for name in records if name not in used]
    if strangers:
        kind = "a TorchScript program" if "constants.pkl" in records else "something else than a state dict"
        raise CheckpointError(f"{path}: has the record {strangers[0]!r}, of no tensor: it is {kind}. {_CONVERT}")
    return placed


def find_shared(placed: Mapping[str, PlacedTensor]) -> list[tuple[str, ...]]:
    """Groups of names that lie at one place: weights that were tied when the file was written."""
    groups: dict[tuple[Path, int], list[str]] = {}
    for name, tensor in placed.items():
        if tensor.record is not None and tensor.info.nbytes:
            groups.setdefault((tensor.file.path, tensor.offset), []).append(name)
    return [tuple(names) for names in groups.values() if len(names) > 1]


def _check_kind(file: MappedFile) -> None:
    """Refuse what is no zip archive, in words that fit what it is instead."""
    head = file.data[:HEAD_BYTES].tobytes()
    if not head.startswith(b"PK\x03\x04"):
        what = describe_content(head) or f"begins with {head[:8]!r}: it is not a file of PyTorch."
        raise CheckpointError(f"{file.path}: {what}")


def _strip_root(file: MappedFile, records: Mapping[str, Record]) -> dict[str, Record]:
    """Records by their names below the one folder that all are in."""
    roots = {name.partition("/")[0] for name in records}
    if len(roots) != 1 or not all("/" in name for name in records):
        raise CheckpointError(
            f"{file.path}: its records are in {len(roots)} folders, expected one. It is not a checkpoint of PyTorch."
        )
    return {name.partition("/")[2]: record for name, record in records.items()}


def _check_note(path: Path, name: str, raw: bytes) -> None:
    text = raw.strip()
    if name == "byteorder" and text != b"little":
        raise CheckpointError(f"{path}: its byteorder is {short(text)}; only little-endian files are read. {_CONVERT}")
    if name == "version" and text not in _VERSIONS:
        raise CheckpointError(f"{path}: is of version {short(text)} of PyTorch's format; 2 and 3 are known.")


def _place(
    file: MappedFile, records: Mapping[str, Record], storages: dict[str, Storage], name: str, tensor: StoredTensor
) -> PlacedTensor:
    storage = tensor.storage
    record = records.get(f"{_STORAGES}{storage.key}")
    if record is None:
        raise CheckpointError(f"{file.path}: {name} is in storage {storage.key!r}, which is not in the archive.")
    known = storages.setdefault(storage.key, storage)
    size = storage.numel * (SCHEMES[storage.scheme].block_bytes if storage.scheme else 1)
    if known != storage or size != record.nbytes:
        raise CheckpointError(
            f"{file.path}: {name} is in storage {storage.key!r} of {storage.numel} elements, {size} bytes; its record "
            f"has {record.nbytes}, or another tensor says otherwise of it."
        )
    nbytes = math.prod(tensor.shape) // SCHEMES[tensor.scheme].block_size * tensor.itemsize
    info = TensorInfo(name, tensor.shape, tensor.scheme, nbytes)
    return PlacedTensor(info, file, record.offset + tensor.first * tensor.itemsize, tensor.strides, record)
