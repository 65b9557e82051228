"""config.json in the spellings of transformers 4 and 5 gives one ModelSpec; every field is read or refused.

The version 5 side is what the installed transformers writes; the version 4 side is written by hand.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from transformers import AutoConfig

from pelton.checkpoint.hf.spec import read_spec
from pelton.checkpoint.model_spec import LayerSpec, ModelSpec, Rope, RopeScaling
from pelton.errors import CheckpointError

pytestmark = pytest.mark.unit

Config = dict[str, Any]

CLASSES = {
    "llama": "LlamaForCausalLM",
    "mistral": "MistralForCausalLM",
    "mixtral": "MixtralForCausalLM",
    "qwen2_moe": "Qwen2MoeForCausalLM",
    "qwen3_moe": "Qwen3MoeForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
    "gemma2": "Gemma2ForCausalLM",
    "gemma3_text": "Gemma3ForCausalLM",
    "phi3": "Phi3ForCausalLM",
    "olmo2": "Olmo2ForCausalLM",
    "granite": "GraniteForCausalLM",
    "smollm3": "SmolLM3ForCausalLM",
    "gpt2": "GPT2LMHeadModel",
}
SIZES: Config = {
    "vocab_size": 96,
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_hidden_layers": 4,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 12,
    "max_position_embeddings": 64,
    "rms_norm_eps": 0.01,
}
PHI_SIZES = {name: value for name, value in SIZES.items() if name != "head_dim"}
GPT2_SIZES: Config = {
    "vocab_size": 96,
    "n_embd": 48,
    "n_layer": 4,
    "n_head": 6,
    "n_positions": 64,
    "n_inner": 80,
    "layer_norm_epsilon": 0.01,
}
NO_ROPE = {"rope_theta": 500.0}


def read(config: Config) -> ModelSpec:
    """The spec of a configuration that went through a file."""
    return read_spec(json.loads(json.dumps(config)), source="config.json")


def v5(model_type: str, **fields: Any) -> Config:
    """What transformers 5 writes for a model of this type."""
    config: Config = AutoConfig.for_model(model_type, **fields).to_dict()
    return {**config, "architectures": [CLASSES[model_type]]}


def v4(model_type: str, **fields: Any) -> Config:
    """A hand-made file in the spelling of version 4, with the notes that such files carry."""
    notes = {
        "_name_or_path": "somewhere",
        "transformers_version": "4.40.0",
        "torch_dtype": "float32",
        "use_cache": True,
    }
    return {"architectures": [CLASSES[model_type]], "model_type": model_type, **notes, **fields}


YARN = {"factor": 4.0, "original_max_position_embeddings": 16, "beta_fast": 8.0, "beta_slow": 2.0}
LLAMA3 = {"factor": 8.0, "low_freq_factor": 1.5, "high_freq_factor": 3.0, "original_max_position_embeddings": 32}
LONGROPE = {"short_factor": [1.0, 1.5, 2.0, 2.5], "long_factor": [2.0, 3.0, 4.0, 5.0]}

# Name -> (model type, fields common to both spellings, version 5's own, version 4's own).
TWINS: dict[str, tuple[str, Config, Config, Config]] = {
    "llama": (
        "llama",
        {**SIZES, "attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True},
        {"rope_parameters": {"rope_type": "default", "rope_theta": 500.0}},
        {"rope_theta": 500.0, "rope_scaling": None},
    ),
    "llama linear": (
        "llama",
        SIZES,
        {"rope_parameters": {"rope_type": "linear", "rope_theta": 500.0, "factor": 4.0}},
        {"rope_theta": 500.0, "rope_scaling": {"type": "linear", "factor": 4.0}},
    ),
    "llama dynamic": (
        "llama",
        SIZES,
        {"rope_parameters": {"rope_type": "dynamic", "rope_theta": 500.0, "factor": 4.0}},
        {"rope_theta": 500.0, "rope_scaling": {"type": "dynamic", "factor": 4.0}},
    ),
    "llama llama3": (
        "llama",
        SIZES,
        {"rope_parameters": {"rope_type": "llama3", "rope_theta": 500.0, **LLAMA3}},
        {"rope_theta": 500.0, "rope_scaling": {"rope_type": "llama3", **LLAMA3}},
    ),
    "mistral": (
        "mistral",
        {**SIZES, "sliding_window": 5},
        {"rope_parameters": {"rope_type": "yarn", "rope_theta": 500.0, **YARN}},
        {"rope_theta": 500.0, "rope_scaling": {"type": "yarn", "rope_type": "yarn", **YARN}},
    ),
    "mistral without a window": ("mistral", {**SIZES, "sliding_window": None}, {"rope_parameters": None}, {}),
    "qwen2 yarn": (
        "qwen2",
        {**PHI_SIZES, "use_sliding_window": True, "sliding_window": 5, "max_window_layers": 2},
        {"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e6, **YARN, "attention_factor": 1.3}},
        {"rope_theta": 1e6, "rope_scaling": {"type": "yarn", **YARN, "attention_factor": 1.3}},
    ),
    "qwen3": (
        "qwen3",
        {**SIZES, "attention_bias": True, "use_sliding_window": False, "max_window_layers": 2},
        {"rope_parameters": {"rope_type": "default", "rope_theta": 1e6}},
        {"rope_theta": 1e6, "sliding_window": None},
    ),
    "mixtral": (
        "mixtral",
        {**SIZES, "sliding_window": 5, "num_local_experts": 6, "num_experts_per_tok": 3},
        {"rope_parameters": {"rope_type": "default", "rope_theta": 1e6}},
        {"rope_theta": 1e6, "router_aux_loss_coef": 0.02, "output_router_logits": False},
    ),
    "qwen2_moe": (
        "qwen2_moe",
        {
            **PHI_SIZES,
            "use_sliding_window": True,
            "sliding_window": 5,
            "max_window_layers": 3,
            "decoder_sparse_step": 2,
            "moe_intermediate_size": 24,
            "shared_expert_intermediate_size": 40,
            "num_experts": 6,
            "num_experts_per_tok": 3,
            "norm_topk_prob": True,
        },
        {"rope_parameters": {"rope_type": "default", "rope_theta": 1e6}},
        {"rope_theta": 1e6, "router_aux_loss_coef": 0.001},
    ),
    "qwen3_moe": (
        "qwen3_moe",
        {**SIZES, "moe_intermediate_size": 24, "num_experts": 6, "num_experts_per_tok": 3, "mlp_only_layers": [2]},
        {"rope_parameters": {"rope_type": "default", "rope_theta": 1e6}},
        {"rope_theta": 1e6, "sliding_window": None, "use_sliding_window": False, "max_window_layers": 4},
    ),
    "gemma2": (
        "gemma2",
        {**SIZES, "query_pre_attn_scalar": 20, "sliding_window": 5, "attn_logit_softcapping": 7.0},
        {"rope_parameters": {"rope_type": "default", "rope_theta": 500.0}, "final_logit_softcapping": 9.0},
        {"rope_theta": 500.0, "final_logit_softcapping": 9.0, "hidden_act": "gelu", "cache_implementation": "hybrid"},
    ),
    "gemma3": (
        "gemma3_text",
        {**SIZES, "num_hidden_layers": 7, "query_pre_attn_scalar": 20, "sliding_window": 5, "attention_bias": True},
        {
            "rope_parameters": {
                "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 5000.0},
                "sliding_attention": {"rope_type": "default", "rope_theta": 50.0},
            },
            "sliding_window_pattern": 3,
        },
        {
            "rope_theta": 5000.0,
            "rope_local_base_freq": 50.0,
            "rope_scaling": {"rope_type": "linear", "factor": 8.0},
            "sliding_window_pattern": 3,
        },
    ),
    "phi3 longrope": (
        "phi3",
        {**PHI_SIZES, "sliding_window": 7, "original_max_position_embeddings": 16},
        {"rope_parameters": {"rope_type": "longrope", "rope_theta": 500.0, **LONGROPE}},
        {"rope_theta": 500.0, "rope_scaling": {"type": "su", **LONGROPE}},
    ),
    "phi3 partial": (
        "phi3",
        {**PHI_SIZES, "tie_word_embeddings": True, "num_attention_heads": 3, "num_key_value_heads": 3},
        {"rope_parameters": {"rope_type": "default", "rope_theta": 500.0, "partial_rotary_factor": 0.75}},
        {"rope_theta": 500.0, "partial_rotary_factor": 0.75, "attention_bias": False},
    ),
    "olmo2": (
        "olmo2",
        {**PHI_SIZES, "attention_bias": True},
        {"rope_parameters": {"rope_type": "default", "rope_theta": 500.0}},
        {"rope_theta": 500.0, "rope_scaling": None},
    ),
    "granite": (
        "granite",
        {
            **PHI_SIZES,
            "attention_multiplier": 0.3,
            "embedding_multiplier": 12.0,
            "residual_multiplier": 0.22,
            "logits_scaling": 8.0,
            "mlp_bias": True,
        },
        {"rope_parameters": {"rope_type": "default", "rope_theta": 500.0}},
        {"rope_theta": 500.0},
    ),
    "smollm3": (
        "smollm3",
        {**PHI_SIZES, "no_rope_layers": [1, 0, 0, 1], "use_sliding_window": True, "sliding_window": 5},
        {"rope_parameters": {"rope_type": "default", "rope_theta": 500.0}},
        {"rope_theta": 500.0, "max_window_layers": 28},
    ),
    "gpt2": (
        "gpt2",
        {**GPT2_SIZES, "scale_attn_weights": False, "activation_function": "relu"},
        {},
        {"n_ctx": 64, "task_specific_params": {"text-generation": {"do_sample": True}}},
    ),
}


@pytest.mark.parametrize("name", TWINS)
def test_both_spellings_give_one_spec(name: str) -> None:
    model_type, common, own5, own4 = TWINS[name]
    new = read(v5(model_type, **common, **own5))
    old = read(v4(model_type, **common, **own4))
    assert replace(new, weight_dtype="float32") == old


@pytest.mark.parametrize("model_type", CLASSES)
def test_missing_fields_have_the_defaults_of_the_family(model_type: str) -> None:
    empty = {"architectures": [CLASSES[model_type]], "model_type": model_type}
    written = v5(model_type)
    assert read(empty) == replace(read(written), weight_dtype="bfloat16")


@pytest.mark.parametrize("model_type", CLASSES)
def test_an_unknown_field_is_refused_by_name(model_type: str) -> None:
    config = v4(model_type)
    assert read({**config, "attention_gizmo": None}) == read(config)
    with pytest.raises(CheckpointError, match=r"config\.json: the field 'attention_gizmo' \(0\.5\) is not known"):
        read({**config, "attention_gizmo": 0.5})


def test_values_arrive_where_they_belong() -> None:
    spec = read(v4("llama", **SIZES, rope_theta=500.0, attention_bias=True))
    assert spec == ModelSpec(
        architecture="llama",
        vocab_size=96,
        hidden_size=48,
        intermediate_size=80,
        num_heads=6,
        num_kv_heads=2,
        head_dim=12,
        max_position=64,
        layers=(LayerSpec(rope=Rope(theta=500.0, rotary_dim=12)),) * 4,
        norm_eps=0.01,
        qkv_bias=True,
        out_bias=True,
        attention_scale=12**-0.5,
        weight_dtype="float32",
    )


def test_gemma2_alternates_windows_and_caps() -> None:
    spec = read(v4("gemma2", **SIZES, sliding_window=5, query_pre_attn_scalar=144, final_logit_softcapping=0.0))
    assert [layer.window for layer in spec.layers] == [5, None, 5, None]
    assert (spec.attention_softcap, spec.logits_softcap) == (50.0, None)
    assert spec.attention_scale == 1 / 12
    assert spec.embedding_multiplier == 48**0.5
    assert spec.activation == "gelu_tanh"


def test_gemma3_scales_only_the_full_layers() -> None:
    model_type, common, _, own4 = TWINS["gemma3"]
    spec = read(v4(model_type, **common, **own4))
    assert [layer.window for layer in spec.layers] == [5, 5, None, 5, 5, None, 5]
    assert spec.layers[0].rope == Rope(theta=50.0, rotary_dim=12)
    assert spec.layers[2].rope == Rope(theta=5000.0, rotary_dim=12, scaling=RopeScaling(kind="linear", factor=8.0))
    assert spec.max_position == 64
    assert spec.qk_norm == "head"


def test_gemma3_private_pattern_counts() -> None:
    spec = read(v4("gemma3_text", **SIZES, sliding_window=5, _sliding_window_pattern=2))
    assert [layer.window for layer in spec.layers] == [5, None, 5, None]


def test_gemma3_with_images_reads_its_text_model() -> None:
    text = {**SIZES, "model_type": "gemma3_text", "rope_scaling": {"rope_type": "linear", "factor": 8.0}}
    config = {
        "architectures": ["Gemma3ForConditionalGeneration"],
        "model_type": "gemma3",
        "mm_tokens_per_image": 256,
        "vision_config": {"hidden_size": 32},
        "torch_dtype": "float16",
        "text_config": text,
    }
    spec = read(config)
    assert spec == read({**text, "architectures": ["Gemma3ForCausalLM"], "torch_dtype": "float16"})
    with pytest.raises(CheckpointError, match="tie_word_embeddings differs"):
        read({**config, "tie_word_embeddings": False, "text_config": {**text, "tie_word_embeddings": True}})
    assert not read({**config, "tie_word_embeddings": False}).tied_embeddings


def test_windows_of_qwen_begin_at_max_window_layers() -> None:
    base = v4("qwen2", **PHI_SIZES, sliding_window=5, max_window_layers=2)
    assert [layer.window for layer in read(base).layers] == [None] * 4
    assert [layer.window for layer in read({**base, "use_sliding_window": True}).layers] == [None, None, 5, 5]
    types = ["sliding_attention", "full_attention"] * 2
    explicit = read({**base, "use_sliding_window": True, "layer_types": types})
    assert [layer.window for layer in explicit.layers] == [5, None, 5, None]
    assert read(base).qkv_bias
    assert not read(base).out_bias


def test_smollm3_ones_mean_rotary() -> None:
    spec = read(v4("smollm3", **PHI_SIZES, no_rope_layers=[1, 0, 0, 1]))
    assert [layer.rope is None for layer in spec.layers] == [False, True, True, False]
    assert [layer.rope is None for layer in read(v4("smollm3", **PHI_SIZES)).layers] == [False, False, False, True]


@pytest.mark.parametrize(
    ("scaling", "length"),
    [
        ({"type": "linear", "factor": 4.0}, 256),
        ({"type": "yarn", "factor": 8.0, "original_max_position_embeddings": 64}, 512),
        ({"type": "yarn", "factor": 2.0, "original_max_position_embeddings": 16}, 64),
        ({"rope_type": "llama3", **LLAMA3}, 64),
    ],
)
def test_max_position_includes_the_scaling(scaling: Config, length: int) -> None:
    assert read(v4("llama", **SIZES, rope_scaling=scaling)).max_position == length


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"architectures": ["LlamaForCausalLN"]}, "Did you mean 'LlamaForCausalLM'"),
        ({"architectures": None}, "architectures does not name a model class"),
        ({"quantization_config": {"quant_method": "torchao"}}, "quantized with 'torchao'"),
        ({"hidden_act": "xielu"}, "hidden_act 'xielu' is not supported"),
        ({"num_attention_heads": 0}, "num_attention_heads is 0"),
        ({"num_key_value_heads": 5}, "6 attention heads cannot share 5"),
        ({"num_hidden_layers": 10**9}, "at most 10000"),
        ({"num_hidden_layers": True}, "num_hidden_layers is True"),
        ({"rms_norm_eps": float("inf")}, "rms_norm_eps"),
        ({"rms_norm_eps": "1e-5"}, "rms_norm_eps"),
        ({"rope_theta": -1.0}, "rope_theta is -1.0"),
        ({"rope_scaling": {"type": "ntk-by-parts", "factor": 2.0}}, "rope_type 'ntk-by-parts'"),
        ({"rope_scaling": {"type": "linear", "rope_type": "yarn", "factor": 2.0}}, "remove the one"),
        ({"rope_scaling": {"type": "linear", "factor": 2.0, "beta_fast": 8.0}}, "'beta_fast'"),
        ({"rope_scaling": {"type": "linear"}}, "factor is missing"),
        ({"rope_scaling": {"type": "linear", "factor": 2.0}, "rope_parameters": {}}, "both rope_parameters"),
        ({"rope_scaling": {"rope_type": "longrope", **LONGROPE}}, "short_factor has 4 entries; expected 6"),
        ({"rope_scaling": [2.0]}, "expected an object"),
        ({"partial_rotary_factor": 0.1}, "partial_rotary_factor"),
        ({"add_cross_attention": True}, "add_cross_attention is True"),
        ({"torch_dtype": "float8"}, "torch_dtype 'float8'"),
    ],
)
def test_what_cannot_be_computed_is_refused(change: Config, message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        read_spec({**v4("llama", **SIZES), **change}, source="config.json")


@pytest.mark.parametrize(
    ("model_type", "change", "message"),
    [
        ("gpt2", {"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx"),
        ("gpt2", {"n_head": 5}, "not a multiple"),
        ("gemma3_text", {"use_bidirectional_attention": True}, "use_bidirectional_attention"),
        ("qwen2", {"layer_types": ["chunked_attention"] * 32}, "chunked_attention"),
        ("qwen2", {"layer_types": ["full_attention"]}, "one per layer"),
        ("smollm3", {"no_rope_layers": [1, 0]}, "no_rope_layers"),
        ("phi3", {"attention_bias": True}, "attention_bias"),
        ("qwen2_moe", {"mlp_only_layers": [24]}, "not among the 24"),
        ("qwen3_moe", {"num_experts": 4, "num_local_experts": 5}, "must agree"),
        ("mixtral", {"num_experts_per_tok": 9}, "goes to 9 of 8 experts"),
    ],
)
def test_what_a_family_cannot_do_is_refused(model_type: str, change: Config, message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        read({**v4(model_type), **change})
