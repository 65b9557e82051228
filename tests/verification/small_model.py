"""Tiny models with all that a conversion can damage: biases, experts, windows, a tokenizer, a template."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from tests.models import architectures
from tests.tokenization.small_tokenizers import CONTROL_TOKENS, byte_level_oracle

VOCABULARY = 640
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if tools %}{{ tools | tojson }}\n{% endif %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SETTINGS: dict[str, tuple[str, dict[str, Any]]] = {
    "dense": (
        "Qwen3",
        {
            **architectures.ODD_HEAD,
            "vocab_size": VOCABULARY,
            "rope_parameters": architectures.YARN,
            "attention_bias": True,
            "tie_word_embeddings": False,
        },
    ),
    "windowed": (
        "Gemma3Text",
        {
            **architectures.ODD_HEAD,
            "vocab_size": VOCABULARY,
            "sliding_window": 9,
            "query_pre_attn_scalar": 13,
            "layer_types": architectures.WINDOWS,
            "rope_parameters": architectures.GEMMA3_ROPE,
        },
    ),
    "experts": (
        "Qwen2Moe",
        {
            **architectures.SIZES,
            **architectures.EXPERTS,
            "vocab_size": VOCABULARY,
            "hidden_size": 72,
            "num_experts": 12,
            "shared_expert_intermediate_size": 52,
            "norm_topk_prob": False,
        },
    ),
    "scaled": (
        "Granite",
        {
            **architectures.SIZES,
            "vocab_size": VOCABULARY,
            "hidden_size": 72,
            "embedding_multiplier": 3.5,
            "residual_multiplier": 0.4,
            "attention_multiplier": 0.21,
            "logits_scaling": 2.5,
        },
    ),
}


def make_small(name: str, directory: Path, dtype: torch.dtype = torch.float32) -> Path:
    """The model `name` of SETTINGS in `directory`, which is made."""
    architectures.CASES[f"small-{name}"] = SETTINGS[name]
    try:
        architectures.make_model(f"small-{name}", directory, dtype)
    finally:
        del architectures.CASES[f"small-{name}"]
    byte_level_oracle("qwen2").save(str(directory / "tokenizer.json"))
    config = {"bos_token": CONTROL_TOKENS[0], "eos_token": CONTROL_TOKENS[2], "chat_template": TEMPLATE}
    (directory / "tokenizer_config.json").write_text(json.dumps({**config, "add_bos_token": True}))
    generation = {"eos_token_id": [602, 600], "temperature": 0.7, "top_k": 20, "top_p": 0.8, "do_sample": True}
    (directory / "generation_config.json").write_text(json.dumps({**generation, "repetition_penalty": 1.1}))
    return directory
