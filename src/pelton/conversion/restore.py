"""A directory that was made of a GGUF, as that GGUF again: byte for byte, as far as nobody changed it since.

A tensor's blocks are taken from the side file only if their numbers are those of the dense weights beside them. What
was changed is written as it is now and reported; and if a file beside the weights was, the header is made anew.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from pelton.checkpoint.contract import TensorInfo
from pelton.checkpoint.gguf.container import parse_header
from pelton.checkpoint.hf.safetensors import PlacedTensor, read_metadata, read_safetensors
from pelton.checkpoint.outgoing import Outgoing
from pelton.checkpoint.scheme import DENSE, row_bytes
from pelton.checkpoint.weight import Bytes, Tensor
from pelton.conversion.dense import has_numbers
from pelton.conversion.result import Loss, Output
from pelton.errors import CheckpointError

HEADER: Final = "gguf.header"  # in the side file: everything before the first tensor
SIDE_FILE: Final = "pelton.gguf.safetensors"
FILES: Final = "files"  # in its metadata: SHA-256 of what was written beside it, by name, as JSON


@dataclass(frozen=True, slots=True)
class Restored:
    """`header` is the original one, or None if it says something else than the directory does now."""

    output: Output
    header: bytes | None


def hash_files(files: Mapping[str, bytes]) -> str:
    """What goes into the side file's metadata."""
    return json.dumps({name: hashlib.sha256(raw).hexdigest() for name, raw in sorted(files.items())})


def restore(directory: Path, made: Output, files: Mapping[str, bytes]) -> Restored:
    """`made` of the directory, with the original blocks where they still say the same. `files` are those beside it."""
    path = directory / SIDE_FILE
    if not path.is_file():
        return Restored(made, None)
    side = read_safetensors(path)
    if HEADER not in side:
        raise CheckpointError(f"{path}: holds no {HEADER!r}. Remove it, or convert from the GGUF again.")
    raw = _read(side[HEADER]).tobytes()
    header = parse_header(path, memoryview(raw))
    told: dict[str, str] = json.loads(read_metadata(path).get(FILES, "{}"))
    now: dict[str, str] = json.loads(hash_files(files))
    changed = sorted(name for name in told if now.get(name) != told[name])
    losses = [Loss(f"file {name}", "was changed since the GGUF was converted", False) for name in changed]
    ours = {tensor.name: tensor for tensor in made.tensors}
    tensors, is_whole = [], not changed
    for info in header.infos:
        original = _take_original(info, side, ours, is_changed=bool(changed))
        if original is None:
            is_whole = False
            losses.append(Loss(f"tensor {info.name}", "was changed since the GGUF was converted", False))
        elif original.scheme != info.scheme or original.shape != info.shape:
            is_whole = False
        if original is not None or info.name in ours:
            tensors.append(original or ours[info.name])
    names = {tensor.name for tensor in tensors}
    tensors += [tensor for tensor in made.tensors if tensor.name not in names]
    is_whole = is_whole and len(tensors) == len(header.infos)
    output = replace(made, tensors=tensors, losses=[*made.losses, *losses])
    return Restored(output, raw if is_whole else None)


def _take_original(
    info: TensorInfo, side: Mapping[str, PlacedTensor], ours: Mapping[str, Outgoing], *, is_changed: bool
) -> Outgoing | None:
    """The tensor as the GGUF had it, or None if the directory says something else now."""
    name = info.name
    if name not in side:
        return ours.get(name)
    rows = _read(side[name]).reshape(-1, row_bytes(info.scheme, info.shape[-1]))
    original = Tensor(name, info.shape, info.scheme, rows)
    if name in ours and (is_changed or info.scheme not in DENSE):  # else: factors that are computed of what is equal
        mine = ours[name]
        if not has_numbers(original, Tensor(name, mine.shape, mine.scheme, mine.make())):
            return None
    return Outgoing(name, info.shape, info.scheme, lambda: rows)


def _read(placed: PlacedTensor) -> Bytes:
    return placed.file.data[placed.offset : placed.offset + placed.info.nbytes]
