"""Which safetensors files of a directory are the model: one file, or those that an index names, and no others.

Repositories ship other weights beside the model (adapters, original formats, old shards), so where an index exists
nothing is searched for. A file named by an index is opened only if its name is bare and it lies in the directory, or
in the `blobs` of the Hugging Face cache that the directory belongs to.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pelton.checkpoint.fields import short
from pelton.checkpoint.hf.safetensors import PlacedTensor, read_safetensors
from pelton.checkpoint.strict_json import load_object
from pelton.errors import CheckpointError

_SINGLE = "model.safetensors"
_INDEX = "model.safetensors.index.json"
_SUFFIX = ".safetensors"


def read_weights(directory: Path) -> dict[str, PlacedTensor]:
    """All tensors of the model in `directory`. Raises CheckpointError."""
    single, index = directory / _SINGLE, directory / _INDEX
    if index.exists():
        if single.exists():
            raise CheckpointError(f"{directory}: has both {_SINGLE} and {_INDEX}. Remove the one that is out of date.")
        return _read_indexed(directory, index)
    if single.exists():
        return read_safetensors(single)
    others = sorted(path.name for path in directory.glob(f"*{_SUFFIX}"))
    if len(others) == 1:
        return read_safetensors(directory / others[0])
    if others:
        raise CheckpointError(
            f"{directory}: has {len(others)} safetensors files and no {_INDEX} that says which belong to the model."
        )
    pickled = sorted(path.name for path in directory.glob("pytorch_model*.bin")) + sorted(
        path.name for path in directory.glob("*.pth")
    )
    hint = f" {pickled[0]} is a pickle, which is never opened; convert it to safetensors." if pickled else ""
    raise CheckpointError(f"{directory}: has no weights: {_SINGLE} and {_INDEX} are missing.{hint}")


def _read_indexed(directory: Path, index: Path) -> dict[str, PlacedTensor]:
    weight_map = load_object(index).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise CheckpointError(f"{index}: weight_map is missing or empty; it maps tensor names to files.")
    names = sorted({_check_name(index, tensor, name) for tensor, name in weight_map.items()})
    tensors: dict[str, PlacedTensor] = {}
    for name in names:
        _check_place(directory, index, name)
        for tensor, placed in read_safetensors(directory / name).items():
            owner = weight_map.get(tensor)
            if owner != name:
                where = "in no file" if owner is None else f"in {owner}"
                raise CheckpointError(f"{directory / name}: holds {short(tensor)}, which the index puts {where}.")
            tensors[tensor] = placed
    missing = [tensor for tensor in weight_map if tensor not in tensors]
    if missing:
        raise CheckpointError(f"{index}: puts {short(missing[0])} in {weight_map[missing[0]]}, which does not hold it.")
    return tensors


def _check_name(index: Path, tensor: str, name: Any) -> str:
    is_bare = isinstance(name, str) and name.isprintable() and not set(name) & set('/\\:"')
    if not is_bare or not name.endswith(_SUFFIX) or name.startswith("."):
        raise CheckpointError(
            f"{index}: puts {short(tensor)} in {short(name)}; expected the bare name of a {_SUFFIX} file."
        )
    return str(name)


def _check_place(directory: Path, index: Path, name: str) -> None:
    """Refuse a link that leads out of the directory and of its cache."""
    path = directory / name
    if not path.exists():
        raise CheckpointError(f"{index}: names {name}, which is not there. The download is incomplete.")
    target = path.resolve()
    roots = [directory.resolve()]
    if directory.absolute().parent.name == "snapshots":
        roots.append((directory.absolute().parent.parent / "blobs").resolve())
    if not any(target.is_relative_to(root) for root in roots):
        raise CheckpointError(f"{path}: is a link that leads out of the directory. Copy the file instead.")
