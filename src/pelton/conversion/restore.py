"""A directory that was made of a GGUF, as that GGUF again: byte for byte, as far as nobody changed it since.

A tensor's blocks are taken from the side file only if their numbers are those of the dense weights beside them. What
was changed is written as it is now and reported; and if a file beside the weights was, the header is made anew.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from pelton.checkpoint.contract import TensorInfo
from pelton.checkpoint.gguf.container import GgufTensor, parse_header
from pelton.checkpoint.gguf.tensor_scales import find_scales, read_scales, scaled
from pelton.checkpoint.gguf.writer import ALIGNMENT
from pelton.checkpoint.hf.safetensors import read_metadata, read_safetensors
from pelton.checkpoint.outgoing import Outgoing
from pelton.checkpoint.placed_tensor import PlacedTensor
from pelton.checkpoint.read_tensor import make_tensor
from pelton.checkpoint.scheme import DENSE
from pelton.checkpoint.strict_json import parse_object
from pelton.checkpoint.weight import Bytes, Tensor
from pelton.conversion.dense import as_dense, has_numbers, is_exact
from pelton.conversion.result import Loss, Output
from pelton.errors import CheckpointError

HEADER: Final = "gguf.header"  # in the side file: everything before the first tensor
SIDE_FILE: Final = "pelton.gguf.blocks"  # safetensors, under a name that nobody takes for weights
ORIGINAL: Final = "original"  # in its metadata: size and SHA-256 of the GGUF, as JSON
FILES: Final = "files"  # in its metadata: SHA-256 of what was written beside it, by name, as JSON


@dataclass(frozen=True, slots=True)
class Original:
    """A GGUF's header, how its tensors are aligned, and the SHA-256 of the whole file where it is known."""

    header: bytes
    alignment: int
    sha256: str | None


@dataclass(frozen=True, slots=True)
class Restored:
    """`original` is None if the directory says something else now."""

    output: Output
    original: Original | None


def hash_texts(files: Mapping[str, bytes]) -> str:
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
    metadata = read_metadata(path)
    told = _read_object(path, metadata.get(FILES, "{}"))
    now = json.loads(hash_texts(files))
    changed = sorted(name for name in told if now.get(name) != told[name])
    losses = [Loss(f"file {name}", "was changed since the GGUF was converted", False) for name in changed]
    ours = {tensor.name: tensor for tensor in made.tensors}
    stored = _place(path, header.infos, side)
    scales, _ = find_scales(stored)
    take = partial(_take_original, stored=stored, scales=scales, ours=ours, is_changed=bool(changed))
    originals = {info.name: take(info) for info in header.infos}
    lost = [name for name, original in originals.items() if original is None]
    losses += [Loss(f"tensor {name}", "was changed since the GGUF was converted", False) for name in lost]
    is_whole = not changed and not lost and ours.keys() <= originals.keys() and _is_as_told(header.infos, originals)
    tensors = [each for each in originals.values() if each is not None]
    if not is_whole:  # what belongs to another tensor, its scale or its copy, may say something else than that does now
        kept = {each.name: each for each in tensors if each.name in ours and each.name not in scales}
        tensors = [kept.get(name, mine) for name, mine in ours.items()]
    output = replace(made, tensors=tensors, losses=[*made.losses, *losses])
    if not is_whole:
        return Restored(output, None)
    alignment = header.metadata.get("general.alignment", ALIGNMENT)
    assert isinstance(alignment, int), "a header's alignment is checked when it is parsed"
    return Restored(output, Original(raw, alignment, _find_hash(path, metadata)))


def _find_hash(path: Path, metadata: Mapping[str, str]) -> str | None:
    """Of the GGUF, if it was one file."""
    files = list(_read_object(path, metadata.get(ORIGINAL, "{}")).values())
    digest = files[0].get("sha256") if len(files) == 1 and isinstance(files[0], dict) else None
    return digest if isinstance(digest, str) else None


def _read_object(path: Path, text: str) -> dict[str, Any]:
    return parse_object(text.encode(), f"{path}: metadata")


def _place(path: Path, infos: Sequence[TensorInfo], side: Mapping[str, PlacedTensor]) -> dict[str, GgufTensor]:
    """The original tensors that the side file holds. Raises CheckpointError for one that has not its size."""
    stored = {
        info.name: GgufTensor(info, side[info.name].file, side[info.name].offset) for info in infos if info.name in side
    }
    for name, tensor in stored.items():
        if side[name].info.nbytes != tensor.info.nbytes:
            raise CheckpointError(
                f"{path}: {name} has {side[name].info.nbytes} bytes, expected {tensor.info.nbytes}. Remove it, or "
                "convert from the GGUF again."
            )
    return stored


def _is_as_told(infos: Sequence[TensorInfo], originals: Mapping[str, Outgoing | None]) -> bool:
    """Whether every tensor has the shape and type that the header gives it."""
    found = ((each.shape, each.scheme) for each in originals.values() if each is not None)
    return list(found) == [(info.shape, info.scheme) for info in infos]


def _take_original(
    info: TensorInfo,
    *,
    stored: Mapping[str, GgufTensor],
    scales: Mapping[str, GgufTensor],
    ours: Mapping[str, Outgoing],
    is_changed: bool,
) -> Outgoing | None:
    """The tensor as the GGUF had it, or None if the directory says something else now."""
    name = info.name
    if name not in stored:
        return _as_stored(info, ours.get(name))
    tensor = make_tensor(stored[name].file, info, stored[name].offset)
    if name in ours and (is_changed or info.scheme not in DENSE or name in scales):  # else: of what is equal
        mine = ours[name]
        numbers = scaled(tensor, read_scales(scales[name], info)) if name in scales else tensor
        if not has_numbers(numbers, Tensor(name, mine.shape, mine.scheme, mine.make())):
            return None
    return Outgoing(name, info.shape, info.scheme, lambda: tensor.payload)


def _as_stored(info: TensorInfo, mine: Outgoing | None) -> Outgoing | None:
    """A dense tensor in the type that it had, if that still holds its numbers."""
    if mine is None or mine.shape != info.shape or mine.scheme == info.scheme or info.scheme not in DENSE:
        return mine
    if not is_exact(_remake(mine), info.scheme):
        return mine
    return Outgoing(mine.name, mine.shape, info.scheme, lambda: as_dense(_remake(mine), info.scheme).payload)


def _remake(mine: Outgoing) -> Tensor:
    return Tensor(mine.name, mine.shape, mine.scheme, mine.make())


def _read(placed: PlacedTensor) -> Bytes:
    return placed.flat().reshape(-1)
