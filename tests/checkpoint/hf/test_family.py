"""The fields that published configurations carry are all known: nothing in them is refused, nothing of use ignored."""

from __future__ import annotations

from typing import Any

import pytest

from pelton.checkpoint.hf.spec import read_spec

pytestmark = pytest.mark.unit

NOTES = {"use_cache": True, "initializer_range": 0.02, "attention_dropout": 0.0, "transformers_version": "4.50.0.dev0"}
LLAMA3 = {
    "factor": 32.0,
    "high_freq_factor": 4.0,
    "low_freq_factor": 1.0,
    "original_max_position_embeddings": 8192,
    "rope_type": "llama3",
}
PUBLISHED: dict[str, dict[str, Any]] = {
    "Llama-3.2-1B-Instruct": {
        "architectures": ["LlamaForCausalLM"],
        "attention_bias": False,
        "bos_token_id": 128000,
        "eos_token_id": [128001, 128008, 128009],
        "head_dim": 64,
        "hidden_act": "silu",
        "hidden_size": 2048,
        "intermediate_size": 8192,
        "max_position_embeddings": 131072,
        "mlp_bias": False,
        "model_type": "llama",
        "num_attention_heads": 32,
        "num_hidden_layers": 16,
        "num_key_value_heads": 8,
        "pretraining_tp": 1,
        "rms_norm_eps": 1e-05,
        "rope_scaling": LLAMA3,
        "rope_theta": 500000.0,
        "tie_word_embeddings": True,
        "torch_dtype": "bfloat16",
        "vocab_size": 128256,
    },
    "SmolLM2-135M": {
        "architectures": ["LlamaForCausalLM"],
        "hidden_act": "silu",
        "hidden_size": 576,
        "intermediate_size": 1536,
        "is_llama_config": True,
        "max_position_embeddings": 8192,
        "num_attention_heads": 9,
        "num_hidden_layers": 30,
        "num_key_value_heads": 3,
        "rope_interleaved": False,
        "rope_scaling": None,
        "rope_theta": 100000,
        "transformers.js_config": {"kv_cache_dtype": {"q4f16": "float16"}},
        "vocab_size": 49152,
    },
    "Qwen2.5-Coder-0.5B-Instruct": {
        "architectures": ["Qwen2ForCausalLM"],
        "bos_token_id": 151643,
        "eos_token_id": 151645,
        "hidden_act": "silu",
        "hidden_size": 896,
        "intermediate_size": 4864,
        "max_position_embeddings": 32768,
        "max_window_layers": 21,
        "num_attention_heads": 14,
        "num_hidden_layers": 24,
        "num_key_value_heads": 2,
        "rms_norm_eps": 1e-06,
        "rope_theta": 1000000.0,
        "sliding_window": 32768,
        "tie_word_embeddings": True,
        "torch_dtype": "bfloat16",
        "use_sliding_window": False,
        "vocab_size": 151936,
    },
    "gemma-3-1b-it": {
        "architectures": ["Gemma3ForCausalLM"],
        "attention_bias": False,
        "attn_logit_softcapping": None,
        "cache_implementation": "hybrid",
        "eos_token_id": [1, 106],
        "final_logit_softcapping": None,
        "head_dim": 256,
        "hidden_activation": "gelu_pytorch_tanh",
        "hidden_size": 1152,
        "intermediate_size": 6912,
        "max_position_embeddings": 32768,
        "model_type": "gemma3_text",
        "num_attention_heads": 4,
        "num_hidden_layers": 26,
        "num_key_value_heads": 1,
        "query_pre_attn_scalar": 256,
        "rms_norm_eps": 1e-06,
        "rope_local_base_freq": 10000,
        "rope_scaling": None,
        "rope_theta": 1000000,
        "sliding_window": 512,
        "sliding_window_pattern": 6,
        "vocab_size": 262144,
    },
    "Phi-4-mini-instruct": {
        "_name_or_path": "Phi-4-mini-instruct",
        "architectures": ["Phi3ForCausalLM"],
        "attention_bias": False,
        "auto_map": {"AutoConfig": "configuration_phi3.Phi3Config"},
        "embd_pdrop": 0.0,
        "full_attn_mod": 1,
        "hidden_act": "silu",
        "hidden_size": 3072,
        "intermediate_size": 8192,
        "interpolate_factor": 1,
        "lm_head_bias": False,
        "max_position_embeddings": 131072,
        "mlp_bias": False,
        "num_attention_heads": 24,
        "num_hidden_layers": 32,
        "num_key_value_heads": 8,
        "original_max_position_embeddings": 4096,
        "partial_rotary_factor": 0.75,
        "resid_pdrop": 0.0,
        "rope_scaling": {"type": "longrope", "short_factor": [1.0] * 48, "long_factor": [2.0] * 48},
        "rope_theta": 10000.0,
        "sliding_window": 262144,
        "tie_word_embeddings": True,
        "vocab_size": 200064,
    },
    "SmolLM3-3B": {
        "architectures": ["SmolLM3ForCausalLM"],
        "attention_bias": False,
        "layer_types": ["full_attention"] * 36,
        "max_position_embeddings": 65536,
        "max_window_layers": 28,
        "mlp_bias": False,
        "no_rope_layer_interval": 4,
        "no_rope_layers": [1, 1, 1, 0] * 9,
        "pretraining_tp": 2,
        "rope_scaling": None,
        "rope_theta": 5000000.0,
        "sliding_window": None,
        "use_sliding_window": False,
        "vocab_size": 128256,
    },
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_fields_are_known(name: str) -> None:
    config = {**NOTES, **PUBLISHED[name]}
    spec = read_spec(config, source=name)
    assert spec.vocab_size == config["vocab_size"]
    assert spec.max_position == config["max_position_embeddings"]
    assert all(layer.rope is None or layer.rope.theta == config["rope_theta"] or layer.window for layer in spec.layers)
