"""ModelSpec -> config.json, every number written down: nothing is left to a default of somebody's class.

Rotary embedding is written in the spelling of transformers 4 (`rope_theta`, `rope_scaling`), which version 5 reads too.
What is written is read back by our own reader and must give the same numbers; what cannot be said is an error
that names the field. Source: the configuration classes of transformers 5.24.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from pelton.checkpoint.hf.spec import read_spec
from pelton.checkpoint.model_spec import LayerSpec, ModelSpec, Rope, RopeScaling
from pelton.checkpoint.rope import stretched_length
from pelton.conversion.spec_loss import compare_specs
from pelton.errors import CheckpointError

Config = dict[str, Any]

_CLASSES: Final = {
    "llama": ("LlamaForCausalLM", "llama"),
    "mistral": ("MistralForCausalLM", "mistral"),
    "mixtral": ("MixtralForCausalLM", "mixtral"),
    "qwen2": ("Qwen2ForCausalLM", "qwen2"),
    "qwen3": ("Qwen3ForCausalLM", "qwen3"),
    "qwen2_moe": ("Qwen2MoeForCausalLM", "qwen2_moe"),
    "qwen3_moe": ("Qwen3MoeForCausalLM", "qwen3_moe"),
    "gemma2": ("Gemma2ForCausalLM", "gemma2"),
    "gemma3": ("Gemma3ForCausalLM", "gemma3_text"),
    "phi3": ("Phi3ForCausalLM", "phi3"),
    "olmo2": ("Olmo2ForCausalLM", "olmo2"),
    "granite": ("GraniteForCausalLM", "granite"),
    "smollm3": ("SmolLM3ForCausalLM", "smollm3"),
    "gpt2": ("GPT2LMHeadModel", "gpt2"),
}
_ACTIVATIONS: Final = {
    "silu": "silu",
    "gelu": "gelu",
    "gelu_tanh": "gelu_pytorch_tanh",
    "relu": "relu",
    "relu2": "relu2",
}


def make_config(spec: ModelSpec, *, dtype: str, ids: Mapping[str, Any]) -> Config:
    """The config.json of `spec`. `dtype` is what the weights are stored as, `ids` are bos_token_id and the like.

    Raises CheckpointError, naming fields, for a specification that the family's configuration cannot express.
    """
    # A GGUF calls Mistral a Llama with a window; transformers' Llama has none.
    if spec.architecture == "llama" and spec.layers[0].window is not None:
        spec = replace(spec, architecture="mistral")
    name, model_type = _CLASSES[spec.architecture]
    config = {"architectures": [name], "model_type": model_type, **_WRITERS[spec.architecture](spec)}
    config |= {"vocab_size": spec.vocab_size, "tie_word_embeddings": spec.tied_embeddings, "torch_dtype": dtype, **ids}
    unequal = compare_specs(spec, read_spec(config, source="the config.json made of it"))
    if unequal:
        told = "; ".join(f"{each.field} {_show(each.source)}" for each in unequal[:3])
        raise CheckpointError(f"A config.json of {name} cannot say: {told}. Use another target format.")
    return config


def _show(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 160 else f"{text[:157]}..."


def _decoder(spec: ModelSpec) -> Config:
    """What all decoders with a gated MLP have."""
    activation = "hidden_activation" if spec.architecture.startswith("gemma") else "hidden_act"
    return {
        "hidden_size": spec.hidden_size,
        "intermediate_size": spec.intermediate_size,
        "num_hidden_layers": spec.num_layers,
        "num_attention_heads": spec.num_heads,
        "num_key_value_heads": spec.num_kv_heads,
        "head_dim": spec.head_dim,
        "rms_norm_eps": spec.norm_eps,
        activation: _ACTIVATIONS[spec.activation],
    }


def _uniform(spec: ModelSpec) -> Config:
    """A decoder whose layers share one rotary embedding."""
    rope = next((layer.rope for layer in spec.layers if layer.rope is not None), None)
    if rope is None:
        raise CheckpointError(
            f"No layer of this {spec.architecture} has a rotary embedding; its config.json needs one."
        )
    return {**_decoder(spec), **write_rope(spec, rope, find_position(spec.max_position, rope.scaling))}


def write_rope(spec: ModelSpec, rope: Rope, position: int) -> Config:
    """`rope_theta`, `rope_scaling` and the lengths that go with them. `position` is max_position_embeddings."""
    written: Config = {"rope_theta": rope.theta, "max_position_embeddings": position}
    if rope.rotary_dim != spec.head_dim:
        written["partial_rotary_factor"] = rope.rotary_dim / spec.head_dim
    scaling = rope.scaling
    if spec.architecture == "phi3":
        written["original_max_position_embeddings"] = spec.max_position
    written["rope_scaling"] = None
    if scaling is None:
        return written
    nested: Config = {"rope_type": scaling.kind}
    match scaling.kind:
        case "linear" | "dynamic":
            nested["factor"] = scaling.factor
        case "yarn":
            nested |= _yarn(scaling)
        case "llama3":
            nested |= {
                "factor": scaling.factor,
                "original_max_position_embeddings": scaling.original_max_position,
                "low_freq_factor": scaling.low_freq_factor,
                "high_freq_factor": scaling.high_freq_factor,
            }
        case "longrope":
            nested |= _longrope(spec, scaling)
            if spec.architecture == "phi3":
                written["original_max_position_embeddings"] = nested.pop("original_max_position_embeddings")
    written["rope_scaling"] = nested
    return written


def find_position(max_position: int, scaling: RopeScaling | None) -> int:
    """The length that a configuration gives, from the stretched one. Raises CheckpointError if there is none."""
    if scaling is None or scaling.kind in ("llama3", "longrope", "yarn"):
        return max_position
    if scaling.kind == "dynamic":
        return scaling.original_max_position
    guess = round(max_position / scaling.factor)
    for position in (guess, guess - 1, guess + 1):
        if position > 0 and stretched_length(position, scaling) == max_position:
            return position
    raise CheckpointError(f"No length times {scaling.factor} is {max_position}, the length of this model.")


def _yarn(scaling: RopeScaling) -> Config:
    given = {"attention_factor": scaling.attention_factor, "mscale": scaling.mscale}
    given["mscale_all_dim"] = scaling.mscale_all_dim
    return {
        "factor": scaling.factor,
        "original_max_position_embeddings": scaling.original_max_position,
        "beta_fast": scaling.beta_fast,
        "beta_slow": scaling.beta_slow,
        **{name: value for name, value in given.items() if value is not None},
        **({} if scaling.truncate else {"truncate": False}),
    }


def _longrope(spec: ModelSpec, scaling: RopeScaling) -> Config:
    nested: Config = {
        "original_max_position_embeddings": scaling.original_max_position,
        "short_factor": list(scaling.short_factors),
        "long_factor": list(scaling.long_factors),
    }
    if scaling.attention_factor is not None:
        nested["attention_factor"] = scaling.attention_factor
    if scaling.factor != spec.max_position / scaling.original_max_position:
        nested["factor"] = scaling.factor
    return nested


def _find_window(spec: ModelSpec) -> int | None:
    """The one length of all windows. None: no layer has one."""
    windows = {layer.window for layer in spec.layers} - {None}
    if len(windows) > 1:
        raise CheckpointError(f"The layers have windows of {sorted(map(str, windows))}; a config.json has one length.")
    return windows.pop() if windows else None


def _list_types(layers: tuple[LayerSpec, ...]) -> list[str]:
    return ["full_attention" if layer.window is None else "sliding_attention" for layer in layers]


def _write_llama(spec: ModelSpec) -> Config:
    return {**_uniform(spec), "attention_bias": spec.qkv_bias, "mlp_bias": spec.mlp_bias}


def _write_windowed(spec: ModelSpec) -> Config:
    return {**_uniform(spec), "sliding_window": spec.layers[0].window}


def _write_mixtral(spec: ModelSpec) -> Config:
    return {**_write_windowed(spec), **_write_experts(spec, "num_local_experts")}


def _write_experts(spec: ModelSpec, number: str) -> Config:
    assert spec.experts is not None, "the architecture has experts and the specification none"
    return {number: spec.experts.num_experts, "num_experts_per_tok": spec.experts.num_experts_per_token}


def _write_qwen(spec: ModelSpec) -> Config:
    window = _find_window(spec)
    config = {**_uniform(spec), "use_sliding_window": window is not None, "layer_types": _list_types(spec.layers)}
    config |= {"sliding_window": window, "max_window_layers": spec.num_layers}
    return config if spec.architecture == "qwen2" else {**config, "attention_bias": spec.qkv_bias}


def _write_qwen_moe(spec: ModelSpec) -> Config:
    assert spec.experts is not None, "the architecture has experts and the specification none"
    window = _find_window(spec)
    config = {
        **_uniform(spec),
        **_write_experts(spec, "num_experts"),
        "use_sliding_window": window is not None,
        "sliding_window": window,
        "moe_intermediate_size": spec.experts.intermediate_size,
        "norm_topk_prob": spec.experts.normalised,
        "decoder_sparse_step": 1,
        "mlp_only_layers": [index for index, layer in enumerate(spec.layers) if not layer.has_experts],
    }
    if spec.architecture == "qwen3_moe":
        return {**config, "attention_bias": spec.qkv_bias}
    shared = {"shared_expert_intermediate_size": spec.experts.shared_intermediate_size, "qkv_bias": spec.qkv_bias}
    return {**config, **shared, "max_window_layers": spec.num_layers, "layer_types": _list_types(spec.layers)}


def _write_gemma(spec: ModelSpec) -> Config:
    """What Gemma 2 and 3 share."""
    return {
        "attention_bias": spec.qkv_bias,
        "query_pre_attn_scalar": find_scalar(spec.attention_scale),
        "attn_logit_softcapping": spec.attention_softcap,
        "final_logit_softcapping": spec.logits_softcap,
        "sliding_window": _find_window(spec),
        "layer_types": _list_types(spec.layers),
        "hidden_act": _ACTIVATIONS[spec.activation],
    }


def find_scalar(scale: float) -> float | int:
    """The number whose root divides: a whole one where that gives `scale` to the bit or to a float32's last."""
    scalar = scale**-2
    whole = round(scalar)
    return whole if abs(scalar - whole) < 1e-6 * scalar else scalar


def _write_gemma2(spec: ModelSpec) -> Config:
    return {**_uniform(spec), **_write_gemma(spec)}


def _write_gemma3(spec: ModelSpec) -> Config:
    """Two rotary embeddings: that of layers without a window, which takes the scaling, and that of the others."""
    full = next((layer.rope for layer in spec.layers if layer.window is None), None)
    local = next((layer.rope for layer in spec.layers if layer.window is not None), None)
    rope = full or local
    assert rope is not None, "a layer of Gemma 3 has no rotary embedding"
    written = write_rope(spec, rope, spec.max_position)  # configurations give the stretched length
    return {**_decoder(spec), **_write_gemma(spec), **written, "rope_local_base_freq": (local or rope).theta}


def _write_olmo2(spec: ModelSpec) -> Config:
    return {**_uniform(spec), "attention_bias": spec.qkv_bias}


def _write_granite(spec: ModelSpec) -> Config:
    return {
        **_write_llama(spec),
        "attention_multiplier": spec.attention_scale,
        "embedding_multiplier": spec.embedding_multiplier,
        "residual_multiplier": spec.residual_multiplier,
        "logits_scaling": spec.logits_divisor,
    }


def _write_smollm3(spec: ModelSpec) -> Config:
    window = _find_window(spec)
    return {
        **_write_llama(spec),
        "no_rope_layers": [int(layer.rope is not None) for layer in spec.layers],
        "no_rope_layer_interval": 4,
        "use_sliding_window": window is not None,
        "sliding_window": window,
        "layer_types": _list_types(spec.layers),
    }


def _write_gpt2(spec: ModelSpec) -> Config:
    return {
        "n_embd": spec.hidden_size,
        "n_head": spec.num_heads,
        "n_layer": spec.num_layers,
        "n_inner": spec.intermediate_size,
        "n_positions": spec.learned_positions,
        "layer_norm_epsilon": spec.norm_eps,
        "activation_function": "gelu_new" if spec.activation == "gelu_tanh" else spec.activation,
        "scale_attn_weights": spec.attention_scale != 1.0,
    }


_WRITERS: Final[dict[str, Callable[[ModelSpec], Config]]] = {
    "llama": _write_llama,
    "mistral": _write_windowed,
    "mixtral": _write_mixtral,
    "qwen2": _write_qwen,
    "qwen3": _write_qwen,
    "qwen2_moe": _write_qwen_moe,
    "qwen3_moe": _write_qwen_moe,
    "gemma2": _write_gemma2,
    "gemma3": _write_gemma3,
    "phi3": _write_windowed,
    "olmo2": _write_olmo2,
    "granite": _write_granite,
    "smollm3": _write_smollm3,
    "gpt2": _write_gpt2,
}
