"""Small model files as bytes, sound or broken: every claim a file makes about itself can be set apart from the truth.

A GGUF value is given encoded (`u32(3)`, `text("x")`), so a test may also give bytes that no writer would produce.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

UINT32, INT32, FLOAT32, BOOL, STRING, ARRAY, UINT64 = 4, 5, 6, 7, 8, 9, 10
GGUF_TYPES = {"F32": 0, "F16": 1, "Q4_0": 2, "Q8_0": 8, "Q4_K": 12, "Q6_K": 14, "IQ4_XS": 23, "BF16": 30}


def counted(raw: bytes) -> bytes:
    """A string behind its length."""
    return struct.pack("<Q", len(raw)) + raw


def u32(value: int) -> bytes:
    return struct.pack("<II", UINT32, value)


def f32(value: float) -> bytes:
    return struct.pack("<If", FLOAT32, value)


def flag(value: int) -> bytes:
    return struct.pack("<IB", BOOL, value)


def text(value: str | bytes) -> bytes:
    return struct.pack("<I", STRING) + counted(value if isinstance(value, bytes) else value.encode())


def array(kind: int, count: int, raw: bytes) -> bytes:
    return struct.pack("<IIQ", ARRAY, kind, count) + raw


def strings(values: Sequence[str | bytes]) -> bytes:
    encoded = [value if isinstance(value, bytes) else value.encode() for value in values]
    return array(STRING, len(encoded), b"".join(map(counted, encoded)))


def i32s(values: Sequence[int]) -> bytes:
    return array(INT32, len(values), np.array(values, "<i4").tobytes())


def f32s(values: Sequence[float]) -> bytes:
    return array(FLOAT32, len(values), np.array(values, "<f4").tobytes())


def flags(values: Sequence[int]) -> bytes:
    return array(BOOL, len(values), bytes(values))


@dataclass(frozen=True, slots=True, kw_only=True)
class GgufTensor:
    """`dims` innermost first, as in the file. `offset` None: where it belongs."""

    name: bytes
    dims: tuple[int, ...]
    type_id: int = 0
    payload: bytes = b""
    offset: int | None = None
    num_dims: int | None = None


def gguf_bytes(
    metadata: Sequence[tuple[str | bytes, bytes]],
    tensors: Sequence[GgufTensor] = (),
    *,
    magic: bytes = b"GGUF",
    version: int = 3,
    num_tensors: int | None = None,
    num_values: int | None = None,
    alignment: int = 32,
) -> bytes:
    """A whole file."""
    counts = (len(tensors) if num_tensors is None else num_tensors, len(metadata) if num_values is None else num_values)
    head = magic + struct.pack("<IQQ", version, *counts)
    for key, value in metadata:
        head += counted(key if isinstance(key, bytes) else key.encode()) + value
    body = b""
    for tensor in tensors:
        body += bytes(-len(body) % alignment)
        num_dims = len(tensor.dims) if tensor.num_dims is None else tensor.num_dims
        head += counted(tensor.name) + struct.pack("<I", num_dims) + struct.pack(f"<{len(tensor.dims)}q", *tensor.dims)
        head += struct.pack("<IQ", tensor.type_id, len(body) if tensor.offset is None else tensor.offset)
        body += tensor.payload
    return head + bytes(-len(head) % alignment) + body if tensors else head


def gguf_matrix(name: str, rows: int, columns: int, seed: int = 0) -> GgufTensor:
    """A float32 matrix of small numbers."""
    values = np.random.default_rng(seed).normal(size=(rows, columns)).astype("<f4")
    return GgufTensor(name=name.encode(), dims=(columns, rows), payload=values.tobytes())


def llama_metadata(architecture: str = "llama", **changes: bytes | None) -> list[tuple[str | bytes, bytes]]:
    """The keys of a two-layer model of `architecture` with eight tokens. In `changes`, "__" stands for "."."""
    values: dict[str, bytes | None] = {
        "general.architecture": text(architecture),
        f"{architecture}.context_length": u32(64),
        f"{architecture}.embedding_length": u32(16),
        f"{architecture}.block_count": u32(2),
        f"{architecture}.feed_forward_length": u32(32),
        f"{architecture}.attention.head_count": u32(4),
        f"{architecture}.attention.head_count_kv": u32(2),
        f"{architecture}.attention.layer_norm_rms_epsilon": f32(0.01),
        f"{architecture}.rope.freq_base": f32(500.0),
        "tokenizer.ggml.model": text("gpt2"),
        "tokenizer.ggml.pre": text("default"),
        "tokenizer.ggml.tokens": strings(list("abcdefgh")),
        "tokenizer.ggml.token_type": i32s([1] * 8),
        "tokenizer.ggml.merges": strings([]),
        "tokenizer.ggml.eos_token_id": u32(7),
        "tokenizer.ggml.bos_token_id": u32(0),
        "tokenizer.ggml.add_bos_token": flag(1),
    }
    values |= {key.replace("__", ".").replace("ARCH", architecture): value for key, value in changes.items()}
    return [(key, value) for key, value in values.items() if value is not None]


def llama_gguf(architecture: str = "llama", *, tensors: Sequence[GgufTensor] = (), **changes: bytes | None) -> bytes:
    """A file with that metadata, an embedding, and `tensors`. It has no layers' weights."""
    return gguf_bytes(llama_metadata(architecture, **changes), [gguf_matrix("token_embd.weight", 8, 16), *tensors])


def safetensors_bytes(header: Mapping[str, Any] | bytes, body: bytes = b"", *, length: int | None = None) -> bytes:
    """A file with this header, as JSON or as raw bytes, and `length` as what it claims to be long."""
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(raw) if length is None else length) + raw + body


def safetensors_of(tensors: Mapping[str, np.ndarray[Any, Any]]) -> bytes:
    """A sound file of float32 tensors."""
    header: dict[str, Any] = {}
    body = b""
    for name, values in tensors.items():
        raw = values.astype("<f4").tobytes()
        header[name] = {"dtype": "F32", "shape": list(values.shape), "data_offsets": [len(body), len(body) + len(raw)]}
        body += raw
    return safetensors_bytes(header, body)
