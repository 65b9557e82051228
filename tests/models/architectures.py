"""Tiny random models of every supported architecture, made with transformers and far from its defaults.

Weights are drawn with standard deviation 0.2, norms and biases away from their initial ones and zeros, heads and sizes
odd, windows shorter than the prompt: a field that is ignored shows in the logits.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import transformers

SIZES: dict[str, Any] = {
    "vocab_size": 97,
    "hidden_size": 60,
    "intermediate_size": 88,
    "num_hidden_layers": 4,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "initializer_range": 0.2,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
ODD_HEAD: dict[str, Any] = {**SIZES, "head_dim": 20}
RMS: dict[str, Any] = {"rms_norm_eps": 3e-3}
ROPE = {"rope_type": "default", "rope_theta": 777.0}
YARN = {
    "rope_type": "yarn",
    "rope_theta": 777.0,
    "factor": 4.0,
    "original_max_position_embeddings": 16,
    "beta_fast": 24.0,
    "beta_slow": 2.0,
}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500.0,
    "factor": 8.0,
    "original_max_position_embeddings": 24,
    "low_freq_factor": 1.5,
    "high_freq_factor": 5.0,
}
LONGROPE = {
    "rope_type": "longrope",
    "rope_theta": 777.0,
    "original_max_position_embeddings": 16,
    "short_factor": [1.0 + 0.05 * i for i in range(10)],
    "long_factor": [1.5 + 0.35 * i for i in range(10)],
}
GEMMA3_ROPE = {
    "sliding_attention": {"rope_type": "default", "rope_theta": 55.0},
    "full_attention": {"rope_type": "linear", "rope_theta": 900.0, "factor": 3.0},
}
EXPERTS: dict[str, Any] = {"num_experts": 6, "num_experts_per_tok": 3, "moe_intermediate_size": 40}
WINDOWS = ["sliding_attention", "full_attention", "sliding_attention", "full_attention"]

transformers.utils.logging.disable_progress_bar()
transformers.utils.logging.set_verbosity_error()

# name -> (class of the configuration without "Config", its fields)
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("Llama", {**ODD_HEAD, **RMS, "rope_parameters": ROPE}),
    "llama-tied-biased": (
        "Llama",
        {
            **ODD_HEAD,
            **RMS,
            "tie_word_embeddings": True,
            "attention_bias": True,
            "mlp_bias": True,
            "hidden_act": "gelu",
        },
    ),
    "llama-linear": ("Llama", {**ODD_HEAD, "rope_parameters": {**ROPE, "rope_type": "linear", "factor": 2.5}}),
    "llama-dynamic": (
        "Llama",
        {**ODD_HEAD, "max_position_embeddings": 24, "rope_parameters": {**ROPE, "rope_type": "dynamic", "factor": 2.0}},
    ),
    "llama-yarn": ("Llama", {**ODD_HEAD, "rope_parameters": YARN}),
    "llama-llama3": ("Llama", {**ODD_HEAD, "rope_parameters": LLAMA3}),
    "mistral": ("Mistral", {**ODD_HEAD, **RMS, "sliding_window": 9, "rope_parameters": ROPE}),
    "qwen2": ("Qwen2", {**SIZES, "hidden_size": 72, **RMS, "rope_parameters": ROPE, "tie_word_embeddings": True}),
    "qwen2-windows": (
        "Qwen2",
        {**SIZES, "hidden_size": 72, "use_sliding_window": True, "sliding_window": 7, "max_window_layers": 2},
    ),
    "qwen3": ("Qwen3", {**ODD_HEAD, **RMS, "rope_parameters": ROPE, "attention_bias": True}),
    "gemma2": (
        "Gemma2",
        {
            **ODD_HEAD,
            **RMS,
            "sliding_window": 9,
            "query_pre_attn_scalar": 11,
            "attn_logit_softcapping": 3.0,
            "final_logit_softcapping": 5.0,
            "rope_parameters": ROPE,
        },
    ),
    "gemma3": (
        "Gemma3Text",
        {
            **ODD_HEAD,
            **RMS,
            "sliding_window": 9,
            "query_pre_attn_scalar": 13,
            "layer_types": WINDOWS,
            "rope_parameters": GEMMA3_ROPE,
        },
    ),
    "phi3": ("Phi3", {**SIZES, "hidden_size": 120, **RMS, "sliding_window": 11, "rope_parameters": ROPE}),
    "phi3-longrope": (
        "Phi3",
        {**SIZES, "hidden_size": 120, "original_max_position_embeddings": 16, "rope_parameters": LONGROPE},
    ),
    "phi3-partial": (
        "Phi3",
        {
            **SIZES,
            "hidden_size": 120,
            "rope_parameters": {**ROPE, "partial_rotary_factor": 0.5},
            "tie_word_embeddings": True,
        },
    ),
    "olmo2": ("Olmo2", {**SIZES, "hidden_size": 72, **RMS, "rope_parameters": ROPE}),
    "granite": (
        "Granite",
        {
            **SIZES,
            "hidden_size": 72,
            **RMS,
            "rope_parameters": ROPE,
            "embedding_multiplier": 3.5,
            "residual_multiplier": 0.4,
            "attention_multiplier": 0.21,
            "logits_scaling": 2.5,
        },
    ),
    "smollm3": (
        "SmolLM3",
        {**SIZES, "hidden_size": 72, **RMS, "rope_parameters": ROPE, "no_rope_layers": [1, 0, 1, 0]},
    ),
    "mixtral": (
        "Mixtral",
        {
            **ODD_HEAD,
            **RMS,
            "rope_parameters": ROPE,
            "sliding_window": 9,
            "num_local_experts": 5,
            "num_experts_per_tok": 2,
            "hidden_act": "gelu",
        },
    ),
    "qwen2_moe": (
        "Qwen2Moe",
        {
            **SIZES,
            **EXPERTS,
            **RMS,
            "hidden_size": 72,
            "rope_parameters": ROPE,
            "shared_expert_intermediate_size": 52,
            "decoder_sparse_step": 2,
            "use_sliding_window": True,
            "sliding_window": 7,
            "layer_types": WINDOWS,
        },
    ),
    "qwen2_moe-normalised": (
        "Qwen2Moe",
        {
            **SIZES,
            **EXPERTS,
            "hidden_size": 72,
            "shared_expert_intermediate_size": 64,
            "norm_topk_prob": True,
            "qkv_bias": False,
            "tie_word_embeddings": True,
        },
    ),
    "qwen3_moe": (
        "Qwen3Moe",
        {
            **ODD_HEAD,
            **EXPERTS,
            **RMS,
            "rope_parameters": ROPE,
            "attention_bias": True,
            "norm_topk_prob": True,
            "mlp_only_layers": [1],
        },
    ),
    "qwen3_moe-windows": (
        "Qwen3Moe",
        {**ODD_HEAD, **EXPERTS, "moe_intermediate_size": 32, "use_sliding_window": True, "sliding_window": 7},
    ),
    "gpt2": (
        "GPT2",
        {
            "vocab_size": 97,
            "n_embd": 72,
            "n_layer": 4,
            "n_head": 6,
            "n_positions": 128,
            "n_inner": 100,
            "layer_norm_epsilon": 3e-3,
            "initializer_range": 0.2,
            "activation_function": "gelu_new",
            "bos_token_id": 1,
            "eos_token_id": 2,
        },
    ),
}


def make_model(name: str, directory: Path, dtype: torch.dtype = torch.float32) -> transformers.PreTrainedModel:
    """The random model `name`, saved to `directory` in `dtype` and returned in float32 with the same weights."""
    family, settings = CASES[name]
    torch.manual_seed(sum(map(ord, name)))
    config = getattr(transformers, f"{family}Config")(**settings)
    config._attn_implementation = "eager"
    head = "GPT2LMHeadModel" if family == "GPT2" else f"{family.removesuffix('Text')}ForCausalLM"
    model = getattr(transformers, head)(config)
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            if parameter.dim() == 1:
                parameter.add_(0.3 * torch.randn_like(parameter))
            elif "embed" in key or "wte" in key or "wpe" in key:
                parameter.copy_(0.2 * torch.randn_like(parameter))
    model = model.to(dtype).eval()
    model.save_pretrained(directory)
    return model.to(torch.float32)
