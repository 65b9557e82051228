"""A small config.json of every supported family with positions that turn, in either spelling, and damaged ones.

Version 4 writes rotary fields side by side, version 5 into `rope_parameters`; `with_rope` writes both kinds.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pelton.checkpoint.hf.spec import read_spec
from pelton.checkpoint.model_spec import ModelSpec, Rope

Config = dict[str, Any]

SIZES: Config = {
    "vocab_size": 96,
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "rms_norm_eps": 0.01,
}
EXPERTS: Config = {"num_experts": 6, "num_experts_per_tok": 3, "moe_intermediate_size": 24}
FAMILIES: dict[str, Config] = {
    "llama": {"architectures": ["LlamaForCausalLM"], "head_dim": 12},
    "mistral": {"architectures": ["MistralForCausalLM"], "head_dim": 12, "sliding_window": 9},
    "mixtral": {"architectures": ["MixtralForCausalLM"], "num_local_experts": 4, "num_experts_per_tok": 2},
    "qwen2": {"architectures": ["Qwen2ForCausalLM"]},
    "qwen3": {"architectures": ["Qwen3ForCausalLM"], "head_dim": 12},
    "qwen2_moe": {"architectures": ["Qwen2MoeForCausalLM"], **EXPERTS, "shared_expert_intermediate_size": 40},
    "qwen3_moe": {"architectures": ["Qwen3MoeForCausalLM"], "head_dim": 12, **EXPERTS},
    "gemma2": {"architectures": ["Gemma2ForCausalLM"], "head_dim": 12, "sliding_window": 9},
    "gemma3": {"architectures": ["Gemma3ForCausalLM"], "head_dim": 12, "sliding_window": 9, "num_hidden_layers": 6},
    "phi3": {"architectures": ["Phi3ForCausalLM"], "original_max_position_embeddings": 64},
    "olmo2": {"architectures": ["Olmo2ForCausalLM"]},
    "granite": {"architectures": ["GraniteForCausalLM"]},
    "smollm3": {"architectures": ["SmolLM3ForCausalLM"]},
}
SCALINGS: dict[str, Config] = {
    "linear": {"rope_type": "linear", "factor": 4.0},
    "dynamic": {"rope_type": "dynamic", "factor": 4.0},
    "yarn": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64},
    "llama3": {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.5,
        "high_freq_factor": 3.0,
        "original_max_position_embeddings": 64,
    },
    "longrope": {
        "rope_type": "longrope",
        "short_factor": [1.0, 1.1, 1.2, 1.3, 1.4, 1.5],
        "long_factor": [2.0, 3.0, 4.0, 5.0, 6.0, 7.0],
        "original_max_position_embeddings": 64,
    },
}


def make_config(family: str, **fields: Any) -> Config:
    """The family's small config.json with further fields."""
    return {**SIZES, **FAMILIES[family], **fields}


def with_rope(config: Mapping[str, Any], scaling: Mapping[str, Any], *, version: int, theta: float = 700.0) -> Config:
    """`config` with a rotary scaling as transformers 4 or 5 writes it."""
    is_gemma3 = config["architectures"] == ["Gemma3ForCausalLM"]
    if version == 4:
        nested = dict(scaling)
        nested["type"] = nested.pop("rope_type")
        local = {"rope_local_base_freq": 30.0} if is_gemma3 else {}
        return {**config, "rope_theta": theta, "rope_scaling": nested, **local}
    parameters: Config = {"rope_theta": theta, **scaling}
    if is_gemma3:
        local = {"rope_type": "default", "rope_theta": 30.0}
        parameters = {"full_attention": parameters, "sliding_attention": local}
    return {**config, "rope_parameters": parameters}


def read(config: Mapping[str, Any]) -> ModelSpec:
    """The specification that the configuration gives after it went through a file."""
    return read_spec(json.loads(json.dumps(config)), source="config.json")


def scaled_ropes(spec: ModelSpec) -> set[Rope]:
    """Those rotary embeddings of a model that have a scaling."""
    return {layer.rope for layer in spec.layers if layer.rope is not None and layer.rope.scaling is not None}
