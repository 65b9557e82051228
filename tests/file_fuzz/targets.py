"""What is read, and from which sound files: for each format a folder of small files and all that is done with it."""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from tests.model_files import (
    GgufTensor,
    array,
    f32s,
    flag,
    gguf_bytes,
    gguf_matrix,
    i32s,
    llama_gguf,
    llama_metadata,
    safetensors_of,
    strings,
    text,
    u32,
)
from tests.pytorch_files import archive, file_of, state_dict, storage, tensor
from tests.pytorch_files import files as pytorch_entries

from pelton.checkpoint.checkpoint import open_checkpoint
from pelton.checkpoint.contract import Checkpoint
from pelton.checkpoint.dequantize import dequantize
from pelton.checkpoint.pytorch.weights import read_pytorch
from pelton.checkpoint.rope import rotary_frequencies
from pelton.checkpoint.scheme import BY_GGUF_ID, INTEGERS
from pelton.conversion import onnx_proto as proto
from pelton.tokenization import make_tokenizer


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Sound files by name, and what reads the folder they are in. Only a CheckpointError may come out of it."""

    files: Mapping[str, bytes]
    read: Callable[[Path], None]


def read_checkpoint(path: Path) -> None:
    """All that an engine does with a model before it computes."""
    with open_checkpoint(path) as checkpoint:
        read_all(checkpoint)


def read_all(checkpoint: Checkpoint) -> None:
    """Metadata, every tensor, and the tokenizer."""
    assert all(0 <= end < checkpoint.spec.vocab_size for end in checkpoint.generation.eos_token_ids)
    for layer in checkpoint.spec.layers[:2]:
        if layer.rope is not None:
            rotary_frequencies(layer.rope, min(checkpoint.spec.max_position, 1 << 16))
    for name in checkpoint.tensors:
        dequantize(checkpoint.read(name))
    if checkpoint.has_tokenizer:
        make_tokenizer(checkpoint.tokenizer_source).encode("abc <s> h\u00e9")


def every_scheme() -> list[GgufTensor]:
    """A tensor of each type of GGUF that can be read, with random bytes."""
    random = np.random.default_rng(0)
    return [
        GgufTensor(
            name=f"blk.0.{scheme.name.lower()}.weight".encode(),
            dims=(scheme.block_size, 1),
            type_id=gguf_id,
            payload=(random.integers(0, 256, scheme.block_bytes, np.uint8) & 0x3F).tobytes(),
        )
        for gguf_id, scheme in BY_GGUF_ID.items()
        if scheme.name not in INTEGERS | {"F64"}
    ]


def gguf_with_everything() -> bytes:
    """A file with all kinds of keys and tensors."""
    scale = GgufTensor(name=b"blk.0.nvfp4.scale", dims=(1,), payload=np.array([0.5], "<f4").tobytes())
    return llama_gguf(
        tensors=[*every_scheme(), scale],
        tokenizer__ggml__pre=text("qwen2"),
        tokenizer__ggml__tokens=strings(["a", "b", "ab", "c", "<s>", "d", "e", "f"]),
        tokenizer__ggml__token_type=i32s([1, 1, 1, 1, 3, 1, 1, 4]),
        tokenizer__ggml__scores=f32s([0.0] * 8),
        tokenizer__ggml__merges=strings(["a b"]),
        tokenizer__chat_template=text("{{ messages }}"),
        tokenizer__chat_template__rag=text("{{ documents }}"),
        tokenizer__chat_templates=strings(["rag"]),
        ARCH__rope__scaling__type=text("yarn"),
        ARCH__rope__scaling__factor=u32(2),
        general__alignment=u32(32),
        general__tags=strings(["x", "y"]),
    )


def gguf_of_pieces(model: str) -> bytes:
    """A file with a vocabulary of SentencePiece."""
    return llama_gguf(
        tokenizer__ggml__model=text(model),
        tokenizer__ggml__tokens=strings(["<unk>", "<s>", "</s>", "<0x41>", "\u2581a", "a", "\u2581", "b"]),
        tokenizer__ggml__token_type=i32s([2, 3, 3, 6, 1, 1, 1, 1]),
        tokenizer__ggml__scores=f32s([0.0, 0.0, 0.0, 0.0, -1.0, -2.0, -3.0, -4.0]),
        tokenizer__ggml__precompiled_charsmap=array(0, 0, b""),
        tokenizer__ggml__add_space_prefix=flag(1),
        tokenizer__ggml__eos_token_id=u32(2),
    )


def gguf_parts() -> dict[str, bytes]:
    """A model in three parts."""
    keys = [[("split.no", u32(n)), ("split.count", u32(3)), ("split.tensors.count", u32(2))] for n in range(3)]
    return {
        "m-00001-of-00003.gguf": gguf_bytes([*llama_metadata(tokenizer__ggml__tokens=None), *keys[0]]),
        "m-00002-of-00003.gguf": gguf_bytes(keys[1], [gguf_matrix("token_embd.weight", 8, 16)]),
        "m-00003-of-00003.gguf": gguf_bytes(keys[2], [gguf_matrix("blk.0.attn_q.weight", 4, 16)]),
    }


def directory() -> dict[str, bytes]:
    """A directory of Hugging Face's layout with its weights in two shards."""
    config = {
        "architectures": ["LlamaForCausalLM"], "vocab_size": 8, "hidden_size": 16, "intermediate_size": 32,
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64,
        "rms_norm_eps": 0.01, "rope_theta": 500.0, "eos_token_id": [1, 2], "tie_word_embeddings": True,
    }  # fmt: skip
    names = {"model.embed_tokens.weight": (8, 16), "model.norm.weight": (16,)}
    shards = {name: f"model-{n}.safetensors" for n, name in enumerate(names)}
    files = {shards[name]: safetensors_of({name: np.ones(shape)}) for name, shape in names.items()}
    index = {"metadata": {"total_size": 4 * (8 * 16 + 16)}, "weight_map": shards}
    texts = {
        "config.json": config,
        "model.safetensors.index.json": index,
        "generation_config.json": {"eos_token_id": 2, "temperature": 0.5},
    }
    return files | {name: json.dumps(value).encode() for name, value in texts.items()}


def pytorch_directory() -> dict[str, bytes]:
    """The same with two shards of PyTorch, one of them a transposed view, the other as torch writes archives."""
    shards = {"model.embed_tokens.weight": "one.bin", "model.norm.weight": "two.bin"}
    embedding = tensor((8, 16), (1, 8), stored=storage(numel=128))
    norm = state_dict({"model.norm.weight": tensor((16,), (1,), stored=storage(numel=16))})
    told_behind = {"flags": 0x808, "crc": 0, "packed": 0, "nbytes": 0}
    entries = [
        replace(
            entry,
            local=told_behind,
            central={"flags": 0x808},
            local_extra=b"FB\x02\x00ZZ",
            behind=struct.pack("<4s3I", b"PK\x07\x08", zlib.crc32(entry.data), len(entry.data), len(entry.data)),
        )
        for entry in pytorch_entries(norm, bytes(64))
    ]
    index = {"metadata": {"total_size": 4 * (8 * 16 + 16)}, "weight_map": shards}
    return {
        "config.json": directory()["config.json"],
        "one.bin": file_of(state_dict({"model.embed_tokens.weight": embedding}), bytes(512)),
        "two.bin": archive(entries),
        "pytorch_model.bin.index.json": json.dumps(index).encode(),
    }


def onnx_directory() -> dict[str, bytes]:
    """The same as optimum exports it: one weight inside and transposed, one beside with a checksum."""
    where = {"location": "w.onnx_data", "offset": "0", "length": "64", "checksum": hashlib.sha1(bytes(64)).hexdigest()}
    entries: list[proto.Field] = [(13, proto.message([(1, key), (2, value)])) for key, value in where.items()]
    weights = [
        proto.constant("onnx::MatMul_1", proto.FLOAT, [16, 8], bytes(512)),
        proto.message([(1, 16), (2, proto.FLOAT), (8, "model.norm.weight"), *entries, (14, 1)]),
        proto.constant("model.embed_tokens.weight", proto.FLOAT, [8, 16], bytes(512)),
    ]
    nodes = [
        proto.node("Gather", ["model.embed_tokens.weight", "input_ids"], ["h"], {"axis": 0}),
        proto.message([(1, "h"), (1, "onnx::MatMul_1"), (2, "logits"), (3, "/lm_head/MatMul"), (4, "MatMul")]),
    ]
    fields: list[proto.Field] = [*((1, node) for node in nodes), *((5, weight) for weight in weights)]
    fields.append((11, proto.value_info("input_ids", proto.INT64, ["batch", "sequence"])))
    return {
        "config.json": directory()["config.json"],
        "model.onnx": proto.model(proto.message(fields), {"k": "v"}, ("a", "b")),
        "w.onnx_data": bytes(64),
    }


def read_pickle(path: Path) -> None:
    """A pickle that is wrong, in an archive that is sound: its checksum would hide it from the reader of pickles."""
    (path / "model.bin").write_bytes(file_of((path / "data.pkl").read_bytes()))
    for placed in read_pytorch(path / "model.bin").values():
        placed.flat()


TARGETS: dict[str, Target] = {
    "gguf": Target(files={"model.gguf": gguf_with_everything()}, read=read_checkpoint),
    "gguf-llama": Target(files={"model.gguf": gguf_of_pieces("llama")}, read=read_checkpoint),
    "gguf-t5": Target(files={"model.gguf": gguf_of_pieces("t5")}, read=read_checkpoint),
    "gguf-parts": Target(files=gguf_parts(), read=read_checkpoint),
    "directory": Target(files=directory(), read=read_checkpoint),
    "pytorch": Target(files=pytorch_directory(), read=read_checkpoint),
    "onnx": Target(files=onnx_directory(), read=read_checkpoint),
    "pytorch-pickle": Target(
        files={"data.pkl": state_dict({"a": tensor(), "b": tensor((3, 2), (1, 3))})}, read=read_pickle
    ),
}
