"""Models small enough to make in a test: random weights, a byte-level tokenizer, the files of Hugging Face.

Neither torch nor transformers is needed, so that end-to-end tests start fast. Weights have standard deviation 0.2 and
norms are away from one: a part that is left out shows. The same seed gives the same bytes.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

SPECIAL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
VOCAB_SIZE = 256 + len(SPECIAL_TOKENS)
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
# What each architecture says besides the sizes; Gemma 3 has its own names for norms, see `TinyModel.shapes`.
CONFIGS: Mapping[str, dict[str, Any]] = {
    "LlamaForCausalLM": {"model_type": "llama", "rope_theta": 5000.0},
    "MistralForCausalLM": {"model_type": "mistral", "sliding_window": 24},
    "Qwen2ForCausalLM": {"model_type": "qwen2", "tie_word_embeddings": True},
    "Qwen3ForCausalLM": {"model_type": "qwen3", "attention_bias": False},
    "Qwen3MoeForCausalLM": {
        "model_type": "qwen3_moe",
        "attention_bias": False,
        "num_experts": 6,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 32,
        "norm_topk_prob": True,
        "mlp_only_layers": [1],
    },
    "Gemma3ForCausalLM": {
        "model_type": "gemma3_text",
        "hidden_activation": "gelu_pytorch_tanh",
        "query_pre_attn_scalar": 24,
        "sliding_window": 24,
        "layer_types": ["sliding_attention", "full_attention"] * 2,
        "rope_theta": 100000.0,
        "rope_local_base_freq": 500.0,
        "tie_word_embeddings": True,
    },
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TinyModel:
    """A random model of one Hugging Face architecture. `write` makes its directory."""

    architecture: str = "LlamaForCausalLM"
    seed: int = 0
    dtype: Literal["F32", "BF16"] = "F32"
    hidden_size: int = 64
    intermediate_size: int = 96
    num_layers: int = 4
    num_heads: int = 4
    num_kv_heads: int = 2
    head_dim: int = 16
    max_position: int = 512

    def config(self) -> dict[str, Any]:
        """What `config.json` says."""
        sizes = {
            "architectures": [self.architecture],
            "vocab_size": VOCAB_SIZE,
            "hidden_size": self.hidden_size,
            "intermediate_size": self.intermediate_size,
            "num_hidden_layers": self.num_layers,
            "num_attention_heads": self.num_heads,
            "num_key_value_heads": self.num_kv_heads,
            "head_dim": self.head_dim,
            "max_position_embeddings": self.max_position,
            "hidden_act": "silu",
            "rms_norm_eps": 1e-5,
            "rope_theta": 10000.0,
            "bos_token_id": None,
            "eos_token_id": VOCAB_SIZE - 1,
            "tie_word_embeddings": False,
            "torch_dtype": "float32" if self.dtype == "F32" else "bfloat16",
        }
        if self.architecture == "Qwen2ForCausalLM":  # it derives the size of its heads
            del sizes["head_dim"]
        return sizes | CONFIGS[self.architecture]

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Every tensor of the file by name."""
        hidden, inner = self.hidden_size, self.intermediate_size
        q_size, kv_size = self.num_heads * self.head_dim, self.num_kv_heads * self.head_dim
        shapes: dict[str, tuple[int, ...]] = {
            "model.embed_tokens.weight": (VOCAB_SIZE, hidden),
            "model.norm.weight": (hidden,),
        }
        if not self.config()["tie_word_embeddings"]:
            shapes["lm_head.weight"] = (VOCAB_SIZE, hidden)
        layer: dict[str, tuple[int, ...]] = {
            "input_layernorm.weight": (hidden,),
            "post_attention_layernorm.weight": (hidden,),
            "self_attn.q_proj.weight": (q_size, hidden),
            "self_attn.k_proj.weight": (kv_size, hidden),
            "self_attn.v_proj.weight": (kv_size, hidden),
            "self_attn.o_proj.weight": (hidden, q_size),
            "mlp.gate_proj.weight": (inner, hidden),
            "mlp.up_proj.weight": (inner, hidden),
            "mlp.down_proj.weight": (hidden, inner),
        }
        if self.architecture == "Qwen2ForCausalLM":
            layer |= {f"self_attn.{part}_proj.bias": (q_size if part == "q" else kv_size,) for part in "qkv"}
        if self.architecture in ("Qwen3ForCausalLM", "Qwen3MoeForCausalLM", "Gemma3ForCausalLM"):
            layer |= {f"self_attn.{part}_norm.weight": (self.head_dim,) for part in "qk"}
        if self.architecture == "Gemma3ForCausalLM":
            layer |= {f"{side}_feedforward_layernorm.weight": (hidden,) for side in ("pre", "post")}
        for i in range(self.num_layers):
            here = self.with_experts(layer) if self.has_experts(i) else layer
            shapes |= {f"model.layers.{i}.{name}": shape for name, shape in here.items()}
        return shapes

    def has_experts(self, layer: int) -> bool:
        """Whether a mixture of experts stands in the place of the layer's MLP."""
        config = self.config()
        return "num_experts" in config and layer not in config["mlp_only_layers"]

    def with_experts(self, layer: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
        """The tensors of a layer with a router and experts for those of its MLP."""
        config, hidden = self.config(), self.hidden_size
        shapes = {name: shape for name, shape in layer.items() if not name.startswith("mlp.")}
        shapes["mlp.gate.weight"] = (config["num_experts"], hidden)
        inner = config["moe_intermediate_size"]
        for expert in range(config["num_experts"]):
            for part in ("gate", "up", "down"):
                shape = (hidden, inner) if part == "down" else (inner, hidden)
                shapes[f"mlp.experts.{expert}.{part}_proj.weight"] = shape
        return shapes

    def tensors(self) -> dict[str, npt.NDArray[np.float32]]:
        """Every tensor's numbers."""
        rng = np.random.default_rng(self.seed)
        norm_mean = 0.0 if self.architecture == "Gemma3ForCausalLM" else 1.0  # Gemma stores w - 1
        return {
            name: rng.normal(norm_mean if "norm" in name else 0.0, 0.2, shape).astype(np.float32)
            for name, shape in self.shapes().items()
        }

    def write(self, directory: Path) -> Path:
        """Write config, weights, tokenizer, chat template and generation defaults; the directory."""
        directory.mkdir(parents=True, exist_ok=True)
        generation = {"eos_token_id": [VOCAB_SIZE - 1, VOCAB_SIZE - 3], "temperature": 0.7, "top_p": 0.8}
        texts = {
            "config.json": self.config(),
            "generation_config.json": generation,
            "tokenizer.json": tokenizer_json(),
            "tokenizer_config.json": {
                "tokenizer_class": "PreTrainedTokenizerFast",
                "eos_token": SPECIAL_TOKENS[2],
                "chat_template": CHAT_TEMPLATE,
            },
        }
        for name, content in texts.items():
            (directory / name).write_text(json.dumps(content, indent=2), encoding="utf-8")
        write_safetensors(directory / "model.safetensors", self.tensors(), self.dtype)
        return directory


def write_safetensors(
    path: Path, tensors: Mapping[str, npt.NDArray[np.float32]], dtype: Literal["F32", "BF16"] = "F32"
) -> None:
    """Write `tensors` in the safetensors format; bfloat16 by cutting off the low bits."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    payloads: list[bytes] = []
    start = 0
    for name, array in tensors.items():
        bits = np.ascontiguousarray(array, "<f4")
        payload = bits.tobytes() if dtype == "F32" else (bits.view("<u4") >> 16).astype("<u2").tobytes()
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [start, start + len(payload)]}
        payloads.append(payload)
        start += len(payload)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(payloads))


def byte_alphabet() -> list[str]:
    """The character that byte-level tokenizers write for each byte: printable ones themselves, others from 256 on."""
    printable = {*range(33, 127), *range(161, 173), *range(174, 256)}
    others = (chr(256 + i) for i in range(256))
    return [chr(byte) if byte in printable else next(others) for byte in range(256)]


def tokenizer_json() -> dict[str, Any]:
    """A tokenizer whose token i is the byte i, and whose special tokens follow."""
    special = [
        {
            "id": 256 + i,
            "content": token,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
        for i, token in enumerate(SPECIAL_TOKENS)
    ]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": special,
        "normalizer": None,
        "pre_tokenizer": byte_level,
        "post_processor": None,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {character: byte for byte, character in enumerate(byte_alphabet())},
            "merges": [],
        },
    }
