"""Which files of a directory are the model: one file, or those that an index names, and no others.

Repositories ship other weights beside the model (adapters, original formats, old shards), so where an index exists
nothing is searched for. Safetensors win over PyTorch's files, and those over ONNX; both are looked for by their usual
names only. A file named by an index is opened only if its name is bare and it lies in the directory, or in the `blobs`
of the Hugging Face cache that the directory belongs to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pelton.checkpoint.fields import short
from pelton.checkpoint.hf.safetensors import read_safetensors
from pelton.checkpoint.onnx.weights import SUFFIXES as ONNX_SUFFIXES
from pelton.checkpoint.onnx.weights import read_onnx
from pelton.checkpoint.placed_tensor import PlacedTensor
from pelton.checkpoint.pytorch.weights import SUFFIXES as PYTORCH_SUFFIXES
from pelton.checkpoint.pytorch.weights import find_shared, read_pytorch
from pelton.checkpoint.strict_json import load_object
from pelton.errors import CheckpointError
from pelton.observability.log import Log

WEIGHT_SUFFIXES: Final = (".safetensors", *PYTORCH_SUFFIXES, *ONNX_SUFFIXES)
_MAX_SHARDS = 10_000
log = Log("checkpoint")


@dataclass(frozen=True, slots=True)
class _Format:
    """The names that a model's files have in one format."""

    single: str
    index: str
    suffix: str
    read: Callable[[Path], dict[str, PlacedTensor]]

    def is_in(self, directory: Path) -> bool:
        return (directory / self.single).exists() or (directory / self.index).exists()


_SAFETENSORS = _Format("model.safetensors", "model.safetensors.index.json", ".safetensors", read_safetensors)
_PYTORCH = _Format("pytorch_model.bin", "pytorch_model.bin.index.json", ".bin", read_pytorch)

_ONNX_FILE = "model.onnx"


def read_weights(path: Path) -> dict[str, PlacedTensor]:
    """All tensors of the model in the directory `path`, or in the file of weights `path`. Raises CheckpointError."""
    if not path.is_dir():
        return _read_file(path)
    if _SAFETENSORS.is_in(path):
        if _PYTORCH.is_in(path):
            log.info("safetensors are read, PyTorch's files beside them are not", directory=path)
        return _read_format(path, _SAFETENSORS)
    if _PYTORCH.is_in(path):
        return _with_shared_told(_read_format(path, _PYTORCH))
    if (graph := find_onnx(path)) is not None:
        return read_onnx(graph)
    others = sorted(entry.name for entry in path.glob(f"*{_SAFETENSORS.suffix}"))
    if len(others) == 1:
        return read_safetensors(path / others[0])
    if others:
        raise CheckpointError(
            f"{path}: has {len(others)} safetensors files and no {_SAFETENSORS.index} that says which belong to the "
            "model."
        )
    pickled = sorted(entry.name for entry in path.iterdir() if entry.suffix in PYTORCH_SUFFIXES)
    hint = f" If {pickled[0]} is the model, give its own path." if pickled else ""
    raise CheckpointError(
        f"{path}: has no weights: {_SAFETENSORS.single}, {_PYTORCH.single}, their indices and {_ONNX_FILE} are "
        f"missing.{hint}"
    )


def find_onnx(path: Path) -> Path | None:
    """The graph that `read_weights` takes the weights from, if it takes them from one."""
    if not path.is_dir():
        return path if path.suffix in ONNX_SUFFIXES else None
    has_others = _SAFETENSORS.is_in(path) or _PYTORCH.is_in(path)
    return path / _ONNX_FILE if not has_others and (path / _ONNX_FILE).exists() else None


def _read_file(path: Path) -> dict[str, PlacedTensor]:
    """The tensors of a file that somebody gives instead of the directory: all of the model, not a shard of it."""
    if path.suffix in ONNX_SUFFIXES:
        return read_onnx(path)
    known = _SAFETENSORS if path.suffix == _SAFETENSORS.suffix else _PYTORCH
    index = path.parent / known.index
    if index.exists() and path.name in _load_map(index).values():
        raise CheckpointError(f"{path}: is one of several files of a model. Give the directory, {path.parent}.")
    tensors = known.read(path)
    return _with_shared_told(tensors) if known is _PYTORCH else tensors


def _read_format(directory: Path, known: _Format) -> dict[str, PlacedTensor]:
    single, index = directory / known.single, directory / known.index
    if not index.exists():
        return known.read(single)
    if single.exists():
        raise CheckpointError(f"{directory}: has both {known.single} and {known.index}. Remove the one out of date.")
    return _read_indexed(directory, index, known)


def _with_shared_told(tensors: dict[str, PlacedTensor]) -> dict[str, PlacedTensor]:
    for names in find_shared(tensors):
        log.info("tensors share their bytes: they were tied when the file was written", tensors=", ".join(names[:8]))
    return tensors


def _load_map(index: Path) -> dict[str, Any]:
    """The `weight_map` of an index, its values not yet checked."""
    weight_map = load_object(index).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise CheckpointError(f"{index}: weight_map is missing or empty; it maps tensor names to files.")
    return weight_map


def _read_indexed(directory: Path, index: Path, known: _Format) -> dict[str, PlacedTensor]:
    weight_map = _load_map(index)
    names = sorted({_check_name(index, tensor, name, known.suffix) for tensor, name in weight_map.items()})
    if len(names) > _MAX_SHARDS:
        raise CheckpointError(f"{index}: names {len(names)} files; at most {_MAX_SHARDS} are opened.")
    for name in names:
        _check_place(directory, index, name)
    tensors: dict[str, PlacedTensor] = {}
    for name in names:
        for tensor, placed in known.read(directory / name).items():
            owner = weight_map.get(tensor)
            if owner != name:
                where = "in no file" if owner is None else f"in {owner}"
                raise CheckpointError(f"{directory / name}: holds {short(tensor)}, which the index puts {where}.")
            tensors[tensor] = placed
    missing = [tensor for tensor in weight_map if tensor not in tensors]
    if missing:
        raise CheckpointError(f"{index}: puts {short(missing[0])} in {weight_map[missing[0]]}, which does not hold it.")
    _check_total(index, tensors)
    return tensors


def _check_total(index: Path, tensors: Mapping[str, PlacedTensor]) -> None:
    """Say where `total_size` is wrong: published indices often are, so it is no reason to refuse a whole model."""
    metadata = load_object(index).get("metadata", {})
    if not isinstance(metadata, dict):
        raise CheckpointError(f"{index}: metadata is {short(metadata)}; expected an object.")
    claimed = metadata.get("total_size")
    if claimed is None:
        return
    if isinstance(claimed, bool) or not isinstance(claimed, int | float) or claimed < 0:
        raise CheckpointError(f"{index}: total_size is {short(claimed)}; expected a number of bytes.")
    actual = sum(tensor.info.nbytes for tensor in tensors.values())
    if claimed != actual:
        log.warning("total_size of the index is wrong, and not needed", file=index, claimed=claimed, actual=actual)


def _check_name(index: Path, tensor: str, name: Any, suffix: str) -> str:
    is_bare = isinstance(name, str) and name.isprintable() and not set(name) & set('/\\:"')
    if not is_bare or not name.endswith(suffix) or name.startswith("."):
        raise CheckpointError(
            f"{index}: puts {short(tensor)} in {short(name)}; expected the bare name of a {suffix} file."
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
