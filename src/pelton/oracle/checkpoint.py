"""A checkpoint for executors that have no model: sizes, a tokenizer whose ids are bytes, and a chat template.

Written as a Hugging Face directory, so that everything that reads checkpoints reads it like any other.
"""

from __future__ import annotations

import json
import os
import struct
from pathlib import Path
from typing import Final

NAME: Final = "oracle"  # what stands for it in the place of a model
NUM_BYTES: Final = 256
SPECIAL: Final = ("<|end|>", "<|system|>", "<|user|>", "<|assistant|>", "<|tool|>")
END_TOKEN_ID: Final = NUM_BYTES
VOCAB_SIZE: Final = NUM_BYTES + len(SPECIAL)
CHAT_TEMPLATE: Final = (
    "{% for message in messages %}{{ '<|' + message['role'] + '|>' + message['content'] + '<|end|>' }}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
CONFIG: Final = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": VOCAB_SIZE,
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 1,
    "num_key_value_heads": 1,
    "head_dim": 64,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "max_position_embeddings": 1 << 17,
    "tie_word_embeddings": True,
    "eos_token_id": END_TOKEN_ID,
    "bos_token_id": None,
    "torch_dtype": "float32",
}


def write_checkpoint(folder: Path) -> Path:
    """Write the checkpoint into `folder`, unless it is there."""
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / "config.json", json.dumps(CONFIG).encode())
    _write(folder / "tokenizer.json", json.dumps(make_tokenizer_json()).encode())
    _write(folder / "tokenizer_config.json", json.dumps(make_tokenizer_config()).encode())
    _write(folder / "model.safetensors", make_safetensors())
    return folder


def make_tokenizer_json() -> dict[str, object]:
    """Byte-level, without a merge: ids below 256 are bytes, and special tokens follow."""
    added = [
        {
            "id": NUM_BYTES + index,
            "content": text,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
        for index, text in enumerate(SPECIAL)
    ]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    vocab = {letter: byte for byte, letter in enumerate(map_bytes())}
    model: dict[str, object] = {
        "type": "BPE",
        "dropout": None,
        "unk_token": None,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": False,
        "byte_fallback": False,
        "ignore_merges": False,
        "vocab": vocab | {text: NUM_BYTES + index for index, text in enumerate(SPECIAL)},
        "merges": [],
    }
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": byte_level,
        "post_processor": None,
        "decoder": byte_level,
        "model": model,
    }


def make_tokenizer_config() -> dict[str, object]:
    """What Hugging Face keeps beside the tokenizer."""
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": SPECIAL[0],
        "chat_template": CHAT_TEMPLATE,
        "clean_up_tokenization_spaces": False,
        "model_max_length": CONFIG["max_position_embeddings"],
    }


def map_bytes() -> list[str]:
    """The printable letter that stands for each byte in byte-level vocabularies (GPT-2)."""
    printable = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = iter(range(NUM_BYTES))
    return [chr(byte) if byte in printable else chr(NUM_BYTES + next(others)) for byte in range(NUM_BYTES)]


def make_safetensors() -> bytes:
    """The embedding, all zeros: there must be a tensor, and nobody computes with it."""
    num_bytes = 4 * VOCAB_SIZE * 64
    info = {"dtype": "F32", "shape": [VOCAB_SIZE, 64], "data_offsets": [0, num_bytes]}
    header = json.dumps({"model.embed_tokens.weight": info}).encode()
    header += b" " * (-len(header) % 8)
    return struct.pack("<Q", len(header)) + header + bytes(num_bytes)


def _write(path: Path, data: bytes) -> None:
    """Whole or not at all, because several servers may start at once."""
    if path.exists() and path.read_bytes() == data:
        return
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_bytes(data)
    temporary.replace(path)
