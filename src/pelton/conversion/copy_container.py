"""The tensors of a Hugging Face directory in another container, or in other shards: names, types and bytes as they are.

Nothing is interpreted, so it works for models that cannot be served here, and quantized weights stay what they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from pelton.checkpoint.hf.safetensors import PlacedTensor, read_safetensors
from pelton.checkpoint.hf.shards import read_weights
from pelton.checkpoint.outgoing import Outgoing
from pelton.checkpoint.weight import Bytes
from pelton.conversion.hf_files import is_adapter, list_left, read_all
from pelton.conversion.restore import SIDE_FILE
from pelton.conversion.result import Loss, Output, TensorRecord
from pelton.errors import CheckpointError


def copy_container(directory: Path) -> Output:
    """What to write. Raises CheckpointError for weights that cannot be read."""
    placed = read_weights(directory)
    files = read_all(directory)
    left = list_left(directory, files, list_weight_files(placed))
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
        if not is_alike or not np.array_equal(read_bytes(placed), tensor.make().reshape(-1)):
            raise CheckpointError(f"{part}: {tensor.name} reads back other than it was written. Check the disk.")


def read_bytes(placed: PlacedTensor) -> Bytes:
    """All bytes of a tensor."""
    return placed.file.data[placed.offset : placed.offset + placed.info.nbytes]


def _reader(placed: PlacedTensor) -> Callable[[], Bytes]:
    return lambda: read_bytes(placed).reshape(1, -1)
