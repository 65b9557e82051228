"""Writes safetensors: one file, or shards and the index that names them, each in one pass.

Equal input gives equal bytes: the header lists tensors in the order given, in JSON without spaces, padded to eight
bytes as the reference writer does. Tensors that lie in one file are as large as `max_shard_bytes` at most, or one.
Source: the format description of safetensors.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from pelton.checkpoint.outgoing import Outgoing
from pelton.checkpoint.tensor_file import write_tensor_file
from pelton.errors import CheckpointError

MAX_SHARD_BYTES: Final = 5 * 10**9
INDEX: Final = "model.safetensors.index.json"
DTYPES: Final = frozenset(
    {
        *("F64", "F32", "F16", "BF16", "F8_E4M3", "F8_E5M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ"),
        *("F6_E2M3", "F6_E3M2", "F4", "C64", "BOOL", "I64", "I32", "I16", "I8", "U64", "U32", "U16", "U8"),
    }
)


def write_safetensors(
    directory: Path,
    tensors: Sequence[Outgoing],
    *,
    metadata: Mapping[str, str],
    max_shard_bytes: int = MAX_SHARD_BYTES,
    on_bytes: Callable[[int], None] = lambda num_bytes: None,
    is_resumable: bool = False,
) -> None:
    """model.safetensors in `directory`, or shards and an index. `on_bytes` hears of each tensor's bytes.

    Raises CheckpointError for a tensor that safetensors cannot hold, and OSError if the disk refuses.
    """
    shards = split(tensors, max_shard_bytes)
    if len(shards) == 1:
        write_safetensors_file(
            directory / "model.safetensors", shards[0], metadata=metadata, on_bytes=on_bytes, is_resumable=is_resumable
        )
        return
    owners: dict[str, str] = {}
    for number, shard in enumerate(shards, 1):
        name = f"model-{number:05d}-of-{len(shards):05d}.safetensors"
        write_safetensors_file(directory / name, shard, metadata=metadata, on_bytes=on_bytes, is_resumable=is_resumable)
        owners |= {tensor.name: name for tensor in shard}
    total = {"total_size": sum(tensor.nbytes for tensor in tensors)}
    index = json.dumps({"metadata": total, "weight_map": owners}, indent=2, ensure_ascii=False)
    (directory / INDEX).write_text(index + "\n", encoding="utf-8")


def split(tensors: Sequence[Outgoing], max_shard_bytes: int) -> list[list[Outgoing]]:
    """The tensors in order, cut where a file would become larger than `max_shard_bytes`."""
    shards: list[list[Outgoing]] = [[]]
    room = max_shard_bytes
    for tensor in tensors:
        if shards[-1] and tensor.nbytes > room:
            shards.append([])
            room = max_shard_bytes
        shards[-1].append(tensor)
        room -= tensor.nbytes
    return shards


def write_safetensors_file(
    path: Path,
    tensors: Sequence[Outgoing],
    *,
    metadata: Mapping[str, str],
    on_bytes: Callable[[int], None] = lambda num_bytes: None,
    is_resumable: bool = False,
) -> None:
    """One file, written anew. Raises as `write_safetensors` does."""
    header = encode_header(path, tensors, metadata)
    write_tensor_file(path, header, tensors, on_bytes=on_bytes, is_resumable=is_resumable)


def encode_header(path: Path, tensors: Sequence[Outgoing], metadata: Mapping[str, str]) -> bytes:
    """All bytes before the first tensor's."""
    entries: dict[str, object] = {"__metadata__": dict(metadata)} if metadata else {}
    offset = 0
    for tensor in tensors:
        if tensor.scheme not in DTYPES:
            raise CheckpointError(
                f"{path}: tensor {tensor.name!r} is stored as {tensor.scheme}, which safetensors does not have."
            )
        if tensor.name in entries:
            raise CheckpointError(f"{path}: two tensors are called {tensor.name!r}.")
        end = offset + tensor.nbytes
        entries[tensor.name] = {"dtype": tensor.scheme, "shape": list(tensor.shape), "data_offsets": [offset, end]}
        offset = end
    raw = json.dumps(entries, separators=(",", ":"), ensure_ascii=False).encode("utf-8")
    raw += b" " * (-len(raw) % 8)
    return len(raw).to_bytes(8, "little") + raw
