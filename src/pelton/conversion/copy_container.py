"""The tensors of a Hugging Face directory or file in another container: names, types and bytes as they are.

Nothing is interpreted, so it works for models that cannot be served here, and quantized weights stay what they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from pelton.checkpoint.hf.safetensors import read_safetensors
from pelton.checkpoint.hf.shards import WEIGHT_SUFFIXES, read_weights
from pelton.checkpoint.outgoing import Outgoing
from pelton.checkpoint.placed_tensor import PlacedTensor
from pelton.checkpoint.weight import Bytes
from pelton.conversion.hf_files import directory_of, is_adapter, list_left, read_all
from pelton.conversion.restore import SIDE_FILE
from pelton.conversion.result import Loss, Output, TensorRecord
from pelton.errors import CheckpointError


def is_copied(source: Path) -> bool:
    """Whether the source has the layout in which tensors need no other names: a directory of it, or weights alone."""
    return (source / "config.json").is_file() or (source.is_file() and source.suffix in WEIGHT_SUFFIXES)


def copy_container(source: Path) -> Output:
    """What to write. Raises CheckpointError for weights that cannot be read."""
    placed = read_weights(source)
    directory = directory_of(source)
    files = read_all(directory) if (directory / "config.json").is_file() else {}
    left = list_left(directory, files, list_weight_files(placed)) if files else {}
    return Output(
        tensors=[Outgoing(name, each.info.shape, each.info.scheme, _reader(each)) for name, each in placed.items()],
        records=[TensorRecord(name, (name,), (), each.info.scheme) for name, each in placed.items()],
        losses=[Loss(f"file {name}", why, is_adapter(name)) for name, why in left.items()],
        files=files,
        side=_copy_side(directory),
        is_copy=True,
        weights=list_weight_files(placed),
    )


def _copy_side(directory: Path) -> list[Outgoing]:
    """The GGUF's blocks that lie beside the tensors, where the directory was made of one."""
    path = directory / SIDE_FILE
    side = read_safetensors(path) if path.is_file() else {}
    return [Outgoing(name, each.info.shape, each.info.scheme, _reader(each)) for name, each in side.items()]


def list_weight_files(placed: Mapping[str, PlacedTensor]) -> tuple[Path, ...]:
    """The files that tensors lie in, each once."""
    return tuple(dict.fromkeys(each.file.path for each in placed.values()))


def check_copy(made: Output, part: Path) -> None:
    """Raise CheckpointError unless the directory `part` holds exactly the tensors of `made`. Reads both."""
    found = read_weights(part)
    if list(found) != [tensor.name for tensor in made.tensors] and set(found) != {t.name for t in made.tensors}:
        raise CheckpointError(f"{part}: was written with {len(found)} tensors; expected {len(made.tensors)}.")
    for tensor in made.tensors:
        placed = found[tensor.name]
        is_alike = (placed.info.shape, placed.info.scheme) == (tensor.shape, tensor.scheme)
        if not is_alike or not np.array_equal(placed.flat().reshape(-1), tensor.make().reshape(-1)):
            raise CheckpointError(f"{part}: {tensor.name} reads back other than it was written. Check the disk.")


def _reader(placed: PlacedTensor) -> Callable[[], Bytes]:
    return lambda: placed.flat().reshape(1, -1)
