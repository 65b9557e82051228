"""config.json -> ModelSpec. `architectures[0]` decides which reader; every field is consumed, inert, or refused.

A field that no reader knows is refused by name unless it is null or its name begins with "_" (transformers' own
notes): somebody wrote it for a purpose, and guessing that it is harmless is how models go wrong without an error.
Gemma's embedding multiplier is sqrt(hidden_size) in full precision. transformers rounds it to the weights' dtype:
exact for float32 models, up to 2^-9 off for bfloat16 ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from pelton.checkpoint.fields import Fields
from pelton.checkpoint.hf import family as families
from pelton.checkpoint.hf.experts import read_mixtral_experts, read_qwen_experts, with_experts
from pelton.checkpoint.hf.family import INERT, REQUIRED, Family
from pelton.checkpoint.hf.quantized.settings import read_quantization
from pelton.checkpoint.hf.rope import RopeDefaults, read_rope, read_rope_by_layer_type
from pelton.checkpoint.model_spec import Experts, LayerSpec, ModelSpec, Rope
from pelton.checkpoint.rope import stretched_length
from pelton.checkpoint.spec_check import MAX_LAYERS, check_spec
from pelton.errors import nearest

Spec = dict[str, Any]  # keyword arguments of ModelSpec
Reader = Callable[[Fields, Family], Spec]

_ACTIVATIONS = {
    "silu": "silu",
    "swish": "silu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "relu": "relu",
    "relu2": "relu2",
}
_DTYPES = {"float32", "float16", "bfloat16"}
_LAYER_TYPES = ("full_attention", "sliding_attention")
_GEMMA3_LOCAL_THETA = 10000.0
_GEMMA3_TOP_LEVEL = frozenset(
    {
        "boi_token_index",
        "eoi_token_index",
        "image_token_index",
        "image_token_id",
        "mm_tokens_per_image",
        "vision_config",
    }
)
_QWEN2_EXPERTS = Experts(
    num_experts=60,
    num_experts_per_token=4,
    intermediate_size=1408,
    normalised=False,
    shared_intermediate_size=5632,
)
_QWEN3_EXPERTS = Experts(num_experts=128, num_experts_per_token=8, intermediate_size=768, normalised=False)
_PATTERN = "_sliding_window_pattern"  # Gemma 3's, the one private note that says something


def read_spec(config: Mapping[str, Any], *, source: str, stored_dtype: str = "bfloat16") -> ModelSpec:
    """The model that `config` describes. `stored_dtype` is the weights' dtype where the file does not name one.

    Raises CheckpointError for an unknown architecture, a missing or unknown field, or one that asks for mathematics
    that is not here.
    """
    fields = _without_notes(source, config)
    name = _get_architecture(fields)
    known, read = _READERS[name]
    dtype = _get_dtype(fields, stored_dtype)
    if name == "Gemma3ForConditionalGeneration":
        fields = _enter_text_config(fields)
        dtype = _get_dtype(fields, dtype)
    _check_quantization(fields)
    spec = ModelSpec(**read(fields, known), weight_dtype=dtype)
    for field, allowed in {**REQUIRED, **known.required}.items():
        fields.require(field, *allowed)
    fields.check_all_read(INERT | known.inert)
    check_spec(spec, source)
    return spec


def _without_notes(source: str, config: Mapping[str, Any]) -> Fields:
    kept = {name: value for name, value in config.items() if not name.startswith("_") or name == _PATTERN}
    return Fields(source, kept)


def _get_architecture(fields: Fields) -> str:
    names = fields.take("architectures")
    if not isinstance(names, list) or not names or not isinstance(names[0], str):
        raise fields.error("architectures does not name a model class. Known: " + ", ".join(sorted(_READERS)) + ".")
    if names[0] not in _READERS:
        raise fields.error(f"the architecture {names[0]!r} is not supported. {nearest(names[0], _READERS)}")
    return names[0]


def _get_dtype(fields: Fields, default: str) -> str:
    for name in ("dtype", "torch_dtype"):
        value = fields.take(name)
        if value is not None:
            text = str(value).removeprefix("torch.")
            if text not in _DTYPES:
                raise fields.error(f"{name} {value!r} is not supported. {nearest(text, _DTYPES)}")
            return text
    return default


def _check_quantization(fields: Fields) -> None:
    read_quantization({"quantization_config": fields.take("quantization_config")}, fields.source)


def _enter_text_config(fields: Fields) -> Fields:
    """The fields of Gemma 3's text model; the rest of the file is about images, which are not read."""
    nested = fields.take("text_config")
    if not isinstance(nested, Mapping):
        raise fields.error("text_config is missing; it describes the text model.")
    text = _without_notes(f"{fields.source}: text_config", nested)
    outer_tied = fields.flag("tie_word_embeddings", families.GEMMA3.tied)
    if text.flag("tie_word_embeddings", outer_tied) != outer_tied:
        raise fields.error("tie_word_embeddings differs between the file and its text_config; make them equal.")
    _check_quantization(fields)
    for name, allowed in REQUIRED.items():
        fields.require(name, *allowed)
    fields.check_all_read(INERT | _GEMMA3_TOP_LEVEL)
    kept = {name: nested[name] for name in nested if not name.startswith("_") or name == _PATTERN}
    return Fields(text.source, {"tie_word_embeddings": outer_tied, **kept})


def _read_sizes(fields: Fields, known: Family) -> Spec:
    """What all decoders with a gated MLP have; layers and rotary embedding are the caller's."""
    hidden_size = fields.integer("hidden_size", known.hidden_size)
    num_heads = fields.integer("num_attention_heads", known.num_heads)
    head_dim = fields.nullable_integer("head_dim", known.head_dim)
    activation = "hidden_activation" if known.architecture.startswith("gemma") else "hidden_act"
    head_dim = head_dim or hidden_size // num_heads
    return {
        "architecture": known.architecture,
        "vocab_size": fields.integer("vocab_size", known.vocab_size),
        "hidden_size": hidden_size,
        "intermediate_size": fields.integer("intermediate_size", known.intermediate_size),
        "num_heads": num_heads,
        "num_kv_heads": fields.nullable_integer("num_key_value_heads", known.num_kv_heads) or num_heads,
        "head_dim": head_dim,
        "max_position": fields.integer("max_position_embeddings", known.max_position),
        "norm_eps": fields.number("rms_norm_eps", known.norm_eps),
        "activation": fields.choice(
            activation, _ACTIVATIONS, "gelu_pytorch_tanh" if activation == "hidden_activation" else "silu"
        ),
        "tied_embeddings": fields.flag("tie_word_embeddings", known.tied),
        "attention_scale": head_dim**-0.5 if head_dim else 1.0,
    }


def _num_layers(fields: Fields, known: Family, name: str = "num_hidden_layers") -> int:
    num_layers = fields.integer(name, known.num_layers)
    if num_layers > MAX_LAYERS:
        raise fields.error(f"{name} is {num_layers}; at most {MAX_LAYERS} can be read.")
    return num_layers


def _rope_defaults(sizes: Spec, known: Family) -> RopeDefaults:
    is_phi = known.architecture == "phi3"
    return RopeDefaults(
        head_dim=sizes["head_dim"],
        max_position=sizes["max_position"],
        theta=known.theta,
        original_max_position=4096 if is_phi else None,
        yarn_is_longrope=is_phi,
    )


def _read_decoder(fields: Fields, known: Family) -> Spec:
    """Sizes, and the same full attention with one rotary embedding in every layer."""
    sizes = _read_sizes(fields, known)
    rope = read_rope(fields, _rope_defaults(sizes, known))
    sizes["max_position"] = stretched_length(sizes["max_position"], rope.scaling)
    return {**sizes, "layers": (LayerSpec(rope=rope),) * _num_layers(fields, known)}


def _read_biases(fields: Fields, *, mlp: bool) -> Spec:
    attention = fields.flag("attention_bias", False)
    biases: Spec = {"qkv_bias": attention, "out_bias": attention}
    if mlp:
        biases["mlp_bias"] = fields.flag("mlp_bias", False)
    return biases


def _read_layer_types(fields: Fields, num_layers: int, default: Callable[[int], bool]) -> list[bool]:
    """For each layer, whether its attention is windowed: as `layer_types` says, else as `default` does."""
    given = fields.take("layer_types")
    if given is None:
        return [default(layer) for layer in range(num_layers)]
    if not isinstance(given, list) or len(given) != num_layers:
        raise fields.error(f"layer_types must be a list of {num_layers} names, one per layer.")
    for name in given:
        if name not in _LAYER_TYPES:
            raise fields.error(f"layer_types has {name!r}, which is not supported. {nearest(str(name), _LAYER_TYPES)}")
    return [name == "sliding_attention" for name in given]


def _with_windows(layers: tuple[LayerSpec, ...], windowed: list[bool], window: int | None) -> tuple[LayerSpec, ...]:
    return tuple(
        LayerSpec(rope=layer.rope, window=window if is_windowed else None)
        for layer, is_windowed in zip(layers, windowed, strict=True)
    )


def _read_llama(fields: Fields, known: Family) -> Spec:
    return {**_read_decoder(fields, known), **_read_biases(fields, mlp=True)}


def _read_windowed(fields: Fields, known: Family) -> Spec:
    """Mistral and Phi-3: one window for all layers, or none; Mistral assumes 4096 where the field is absent."""
    spec = _read_decoder(fields, known)
    layers = spec["layers"]
    window = fields.nullable_integer("sliding_window", 4096 if known.architecture == "mistral" else None)
    return {**spec, "layers": _with_windows(layers, [True] * len(layers), window)}


def _read_qwen(fields: Fields, known: Family) -> Spec:
    """Qwen 2 has biases on q, k and v without a field that says so; Qwen 3 has a field, and norms on q and k."""
    spec = _read_decoder(fields, known)
    window = fields.nullable_integer("sliding_window", 4096)
    if not fields.flag("use_sliding_window", False):
        window = None
    first = fields.integer("max_window_layers", 28, minimum=0)
    windowed = _read_layer_types(fields, len(spec["layers"]), lambda layer: layer >= first)
    layers = _with_windows(spec["layers"], windowed, window)
    if known.architecture == "qwen2":
        return {**spec, "layers": layers, "qkv_bias": True}
    return {**spec, "layers": layers, "qk_norm": "head", **_read_biases(fields, mlp=False)}


def _read_mixtral(fields: Fields, known: Family) -> Spec:
    spec = _read_windowed(fields, known)
    layers = tuple(replace(layer, has_experts=True) for layer in spec["layers"])
    return {**spec, "layers": layers, "experts": read_mixtral_experts(fields, spec["intermediate_size"])}


def _read_qwen2_moe(fields: Fields, known: Family) -> Spec:
    """Windows, where they are used, alternate in the lower layers, unlike those of the dense models."""
    spec = _read_decoder(fields, known)
    window = fields.nullable_integer("sliding_window", 4096, minimum=0)
    if not fields.flag("use_sliding_window", False):
        window = None
    last = fields.integer("max_window_layers", 28, minimum=0)
    windowed = _read_layer_types(fields, len(spec["layers"]), lambda layer: layer % 2 == 0 and layer < last)
    return {
        **spec,
        "layers": with_experts(fields, _with_windows(spec["layers"], windowed, window or None)),
        "experts": read_qwen_experts(fields, _QWEN2_EXPERTS),
        "qkv_bias": fields.flag("qkv_bias", True),
    }


def _read_qwen3_moe(fields: Fields, known: Family) -> Spec:
    """A window, where one is used, is that of all layers."""
    spec = _read_decoder(fields, known)
    window = fields.nullable_integer("sliding_window", 4096)
    is_windowed = fields.flag("use_sliding_window", False)
    layers = _with_windows(spec["layers"], [is_windowed] * len(spec["layers"]), window)
    return {
        **spec,
        **_read_biases(fields, mlp=False),
        "layers": with_experts(fields, layers),
        "experts": read_qwen_experts(fields, _QWEN3_EXPERTS),
        "qk_norm": "head",
    }


def _read_gemma(fields: Fields, sizes: Spec, softcaps: tuple[float | None, float | None]) -> Spec:
    """What Gemma 2 and 3 share. A soft-cap of 0 is none, as null is."""
    return {
        **sizes,
        **_read_biases(fields, mlp=False),
        "attention_scale": fields.positive("query_pre_attn_scalar", 256) ** -0.5,
        "attention_softcap": fields.nullable_number("attn_logit_softcapping", softcaps[0]) or None,
        "logits_softcap": fields.nullable_number("final_logit_softcapping", softcaps[1]) or None,
        "embedding_multiplier": sizes["hidden_size"] ** 0.5,
    }


def _read_gemma2(fields: Fields, known: Family) -> Spec:
    spec = _read_gemma(fields, _read_decoder(fields, known), (50.0, 30.0))
    windowed = _read_layer_types(fields, len(spec["layers"]), lambda layer: layer % 2 == 0)
    return {**spec, "layers": _with_windows(spec["layers"], windowed, fields.nullable_integer("sliding_window", 4096))}


def _read_gemma3(fields: Fields, known: Family) -> Spec:
    """Configurations give the stretched length: linear scaling by 8 goes with max_position_embeddings 131072."""
    sizes = _read_sizes(fields, known)
    ropes = read_rope_by_layer_type(fields, _rope_defaults(sizes, known), _GEMMA3_LOCAL_THETA)
    pattern = fields.integer("sliding_window_pattern", fields.integer(_PATTERN, 6))
    windowed = _read_layer_types(fields, _num_layers(fields, known), lambda layer: (layer + 1) % pattern != 0)
    window = fields.nullable_integer("sliding_window", 4096)
    full: Rope = ropes["full_attention"]
    layers = tuple(
        LayerSpec(rope=ropes["sliding_attention"], window=window) if is_windowed else LayerSpec(rope=full)
        for is_windowed in windowed
    )
    return {**_read_gemma(fields, sizes, (None, None)), "layers": layers, "qk_norm": "head"}


def _read_olmo2(fields: Fields, known: Family) -> Spec:
    return {**_read_decoder(fields, known), **_read_biases(fields, mlp=False), "qk_norm": "full"}


def _read_granite(fields: Fields, known: Family) -> Spec:
    return {
        **_read_decoder(fields, known),
        **_read_biases(fields, mlp=True),
        "attention_scale": fields.number("attention_multiplier", 1.0),
        "embedding_multiplier": fields.number("embedding_multiplier", 1.0),
        "residual_multiplier": fields.number("residual_multiplier", 1.0),
        "logits_divisor": fields.positive("logits_scaling", 1.0),
    }


def _read_smollm3(fields: Fields, known: Family) -> Spec:
    """`no_rope_layers[i] == 1` means that layer i HAS a rotary embedding."""
    spec = _read_decoder(fields, known)
    num_layers = len(spec["layers"])
    interval = fields.integer("no_rope_layer_interval", 4)
    flags = fields.numbers("no_rope_layers") or tuple(float((i + 1) % interval != 0) for i in range(num_layers))
    if len(flags) != num_layers or not set(flags) <= {0.0, 1.0}:
        raise fields.error(f"no_rope_layers must be {num_layers} ones (rotary) and zeros (none).")
    window = fields.nullable_integer("sliding_window")
    use_window = fields.flag("use_sliding_window", False)
    windowed = _read_layer_types(fields, num_layers, lambda layer: not flags[layer])
    layers = _with_windows(spec["layers"], windowed, window if use_window else None)
    ropes = tuple(
        layer if flag else LayerSpec(rope=None, window=layer.window) for layer, flag in zip(layers, flags, strict=True)
    )
    return {**spec, **_read_biases(fields, mlp=True), "layers": ropes}


def _read_gpt2(fields: Fields, known: Family) -> Spec:
    hidden_size, num_heads = fields.integer("n_embd", known.hidden_size), fields.integer("n_head", known.num_heads)
    if hidden_size % num_heads:
        raise fields.error(f"n_embd {hidden_size} is not a multiple of n_head {num_heads}.")
    head_dim = hidden_size // num_heads
    max_position = fields.integer("n_positions", known.max_position)
    return {
        "architecture": known.architecture,
        "vocab_size": fields.integer("vocab_size", known.vocab_size),
        "hidden_size": hidden_size,
        "intermediate_size": fields.nullable_integer("n_inner") or 4 * hidden_size,
        "num_heads": num_heads,
        "num_kv_heads": num_heads,
        "head_dim": head_dim,
        "max_position": max_position,
        "learned_positions": max_position,
        "layers": (LayerSpec(rope=None),) * _num_layers(fields, known, "n_layer"),
        "norm_eps": fields.number("layer_norm_epsilon", known.norm_eps),
        "norm_style": "layer",
        "activation": fields.choice("activation_function", _ACTIVATIONS, "gelu_new"),
        "tied_embeddings": fields.flag("tie_word_embeddings", known.tied),
        "qkv_bias": True,
        "out_bias": True,
        "mlp_bias": True,
        "attention_scale": head_dim**-0.5 if fields.flag("scale_attn_weights", True) else 1.0,
    }


_READERS: dict[str, tuple[Family, Reader]] = {
    "LlamaForCausalLM": (families.LLAMA, _read_llama),
    "MistralForCausalLM": (families.MISTRAL, _read_windowed),
    "Qwen2ForCausalLM": (families.QWEN2, _read_qwen),
    "Qwen3ForCausalLM": (families.QWEN3, _read_qwen),
    "MixtralForCausalLM": (families.MIXTRAL, _read_mixtral),
    "Qwen2MoeForCausalLM": (families.QWEN2_MOE, _read_qwen2_moe),
    "Qwen3MoeForCausalLM": (families.QWEN3_MOE, _read_qwen3_moe),
    "Gemma2ForCausalLM": (families.GEMMA2, _read_gemma2),
    "Gemma3ForCausalLM": (families.GEMMA3, _read_gemma3),
    "Gemma3ForConditionalGeneration": (families.GEMMA3, _read_gemma3),
    "Phi3ForCausalLM": (families.PHI3, _read_windowed),
    "Olmo2ForCausalLM": (families.OLMO2, _read_olmo2),
    "GraniteForCausalLM": (families.GRANITE, _read_granite),
    "SmolLM3ForCausalLM": (families.SMOLLM3, _read_smollm3),
    "GPT2LMHeadModel": (families.GPT2, _read_gpt2),
}
