"""From a path to an opened checkpoint: the format is told by what is there, never by guessing from content."""

from __future__ import annotations

from pathlib import Path

from pelton.checkpoint.contract import Checkpoint, GenerationDefaults, Naming, TensorInfo
from pelton.checkpoint.gguf.checkpoint import GgufCheckpoint
from pelton.checkpoint.gguf.parts import find_first_part
from pelton.checkpoint.hf.checkpoint import HfCheckpoint
from pelton.checkpoint.hf.shards import WEIGHT_SUFFIXES
from pelton.errors import CheckpointError

__all__ = ["Checkpoint", "GenerationDefaults", "Naming", "TensorInfo", "open_checkpoint"]


def open_checkpoint(path: Path, *, checks_sums: bool = True) -> Checkpoint:
    """The checkpoint at `path`: a .gguf file, weights with config.json beside them, or a directory with either.

    Reads and checks all metadata and no weights. Raises CheckpointError with what is wrong and what to do. Without
    `checks_sums`, reading a little of a weight does not cost a pass over its record, where the format has checksums.
    """
    try:
        if not path.exists():
            raise CheckpointError(f"{path}: there is no such file or directory.")
        is_directory = path.is_dir()
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path}: cannot be opened: {error}.") from None
    if not is_directory:
        if path.suffix in WEIGHT_SUFFIXES:
            if not (path.parent / "config.json").exists():
                raise CheckpointError(f"{path}: is only the weights. Put the config.json of the model beside it.")
            return HfCheckpoint(path.parent, path, checks_sums=checks_sums)
        return GgufCheckpoint(path)
    if (path / "config.json").exists():
        return HfCheckpoint(path, checks_sums=checks_sums)
    files = sorted(path.glob("*.gguf"))
    first = files[0] if len(files) == 1 else find_first_part(files)
    if first is not None:
        return GgufCheckpoint(first)
    if files:
        raise CheckpointError(f"{path}: has {len(files)} .gguf files. Give the path of one: {files[0].name}, ...")
    if (path / "genai_config.json").exists():
        raise CheckpointError(
            f"{path}: is of onnxruntime-genai, whose configuration leaves out what its graph has built in. Put the "
            "config.json of the original model beside it."
        )
    raise CheckpointError(f"{path}: has neither config.json nor a .gguf file, so there is no model in it.")
