"""ModelSpec -> the keys of a GGUF's architecture, and the small tensors of rotary factors that belong to them.

Every number is written, also where a reader would assume it. What a GGUF has no word for (an activation, windows of a
family that has none there, dynamic scaling) is not written: whoever converts reads the keys back, compares, and
declares or refuses what is missing. Numbers are float32, as all readers of the format expect.
Source: the keys of llama.cpp's loaders and the `gguf` package's constants.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from pelton.checkpoint.gguf.writer import GgufValue
from pelton.checkpoint.model_spec import ModelSpec, Rope, RopeScaling
from pelton.checkpoint.outgoing import Outgoing
from pelton.checkpoint.rope import longrope_attention_factor, rotary_frequencies, yarn_attention_factor
from pelton.conversion.hf_config import find_position

Keys = dict[str, GgufValue]

ARCHITECTURES: Final = {"mistral": "llama", "mixtral": "llama", "qwen2_moe": "qwen2moe", "qwen3_moe": "qwen3moe"}


def make_keys(spec: ModelSpec) -> Keys:
    """`general.architecture` and all keys below it."""
    name = ARCHITECTURES.get(spec.architecture, spec.architecture)
    keys = {**_sizes(spec), **_rope_keys(spec), **_WRITERS.get(spec.architecture, _nothing)(spec)}
    return {"general.architecture": name, **{f"{name}.{key}": value for key, value in keys.items()}}


def make_factors(spec: ModelSpec) -> list[Outgoing]:
    """The tensors `rope_freqs` (Llama 3) or `rope_factors_short` and `_long` (LongRoPE), where the model has them."""
    rope = find_rope(spec)
    scaling = None if rope is None else rope.scaling
    if rope is None or scaling is None:
        return []
    if scaling.kind == "llama3":
        plain, _ = rotary_frequencies(Rope(theta=rope.theta, rotary_dim=rope.rotary_dim), spec.max_position)
        stretched, _ = rotary_frequencies(rope, spec.max_position)
        return [_vector("rope_freqs.weight", np.array(plain) / np.array(stretched))]
    if scaling.kind != "longrope":
        return []
    if is_divisors(scaling):
        return [_vector("rope_freqs.weight", np.array(scaling.short_factors))]
    return [
        _vector("rope_factors_short.weight", np.array(scaling.short_factors)),
        _vector("rope_factors_long.weight", np.array(scaling.long_factors)),
    ]


def is_divisors(scaling: RopeScaling) -> bool:
    """Whether this is Llama 3's stretching as a GGUF reader keeps it: factors for all lengths, and nothing else."""
    return scaling.short_factors == scaling.long_factors and scaling.attention_factor == 1.0


def find_rope(spec: ModelSpec) -> Rope | None:
    """The rotary embedding of the layers without a window, or of the first that has one."""
    ropes = [layer.rope for layer in spec.layers if layer.rope is not None]
    full = [layer.rope for layer in spec.layers if layer.rope is not None and layer.window is None]
    return next(iter(full or ropes), None)


def _vector(name: str, numbers: np.ndarray) -> Outgoing:
    rows = np.ascontiguousarray(numbers[None, :], dtype=np.float32).view(np.uint8)
    return Outgoing(name, (len(numbers),), "F32", lambda: rows)


def _sizes(spec: ModelSpec) -> Keys:
    keys: Keys = {
        "vocab_size": spec.vocab_size,
        "context_length": spec.max_position,
        "embedding_length": spec.hidden_size,
        "block_count": spec.num_layers,
        "feed_forward_length": spec.intermediate_size,
        "attention.head_count": spec.num_heads,
        "attention.head_count_kv": spec.num_kv_heads,
    }
    if spec.norm_style == "layer":
        return {**keys, "attention.layer_norm_epsilon": float(spec.norm_eps)}
    lengths: Keys = {"attention.key_length": spec.head_dim, "attention.value_length": spec.head_dim}
    return {**keys, **lengths, "attention.layer_norm_rms_epsilon": float(spec.norm_eps)}


def _rope_keys(spec: ModelSpec) -> Keys:
    rope = find_rope(spec)
    if rope is None:
        return {}
    keys: Keys = {"rope.dimension_count": rope.rotary_dim, "rope.freq_base": float(rope.theta)}
    scaling = rope.scaling
    if scaling is None:
        return keys
    if spec.architecture != "gemma3" and scaling.kind == "linear":
        keys["context_length"] = find_position(spec.max_position, scaling)
    if scaling.kind in ("linear", "yarn"):
        keys |= {"rope.scaling.type": scaling.kind, "rope.scaling.factor": float(scaling.factor)}
    if scaling.kind == "yarn":
        keys |= _yarn(scaling)
    elif scaling.kind == "longrope" and not is_divisors(scaling):
        factor = scaling.attention_factor
        keys |= {
            "rope.scaling.type": "longrope",
            "rope.scaling.original_context_length": scaling.original_max_position,
            "rope.scaling.attn_factor": longrope_attention_factor(scaling) if factor is None else factor,
        }
    return keys


def _yarn(scaling: RopeScaling) -> Keys:
    """The attention factor of a file comes on top of 0.1 ln(factor) + 1, which its readers always apply."""
    plain = RopeScaling(kind="yarn", factor=scaling.factor, original_max_position=scaling.original_max_position)
    extra = yarn_attention_factor(scaling) / yarn_attention_factor(plain)
    keys: Keys = {
        "rope.scaling.original_context_length": scaling.original_max_position,
        "rope.scaling.yarn_beta_fast": float(scaling.beta_fast),
        "rope.scaling.yarn_beta_slow": float(scaling.beta_slow),
    }
    return keys if abs(extra - 1.0) < 1e-7 else {**keys, "rope.scaling.attn_factor": float(extra)}


def _nothing(_: ModelSpec) -> Keys:
    return {}


def _window(spec: ModelSpec) -> Keys:
    window = next((layer.window for layer in spec.layers if layer.window is not None), None)
    return {} if window is None else {"attention.sliding_window": window}


def _experts(spec: ModelSpec) -> Keys:
    experts = spec.experts
    assert experts is not None, "the architecture has experts and the specification none"
    keys: Keys = {"expert_count": experts.num_experts, "expert_used_count": experts.num_experts_per_token}
    if spec.architecture == "mixtral":
        return {**keys, **_window(spec)}
    keys |= {"expert_feed_forward_length": experts.intermediate_size}
    if experts.normalised != (spec.architecture == "qwen3_moe"):  # what readers assume of the two
        keys["expert_weights_norm"] = experts.normalised
    if experts.shared_intermediate_size:
        keys["expert_shared_feed_forward_length"] = experts.shared_intermediate_size
    return keys


def _gemma2(spec: ModelSpec) -> Keys:
    return {
        **_window(spec),
        "attn_logit_softcapping": spec.attention_softcap or 0.0,
        "final_logit_softcapping": spec.logits_softcap or 0.0,
        **_scale(spec, deepest=46),
    }


def _gemma3(spec: ModelSpec) -> Keys:
    keys = {**_window(spec), **_scale(spec, deepest=62)}
    local = next((layer.rope for layer in spec.layers if layer.window is not None), None)
    if local is not None:
        keys["rope.freq_base_swa"] = float(local.theta)
    windowed = [layer.window is not None for layer in spec.layers]
    if windowed != [(index + 1) % 6 != 0 for index in range(len(windowed))]:
        keys["attention.sliding_window_pattern"] = np.array(windowed, np.bool_)
    softcaps = {"attn_logit_softcapping": spec.attention_softcap, "final_logit_softcapping": spec.logits_softcap}
    return {**keys, **{name: cap for name, cap in softcaps.items() if cap is not None}}


def _scale(spec: ModelSpec, *, deepest: int) -> Keys:
    """`attention.scale`, unless it is what readers assume of a Gemma of this depth."""
    scaled_dim = spec.hidden_size // spec.num_heads if spec.num_layers == deepest else spec.head_dim
    return {} if spec.attention_scale == scaled_dim**-0.5 else {"attention.scale": float(spec.attention_scale)}


def _granite(spec: ModelSpec) -> Keys:
    return {
        "attention.scale": float(spec.attention_scale),
        "embedding_scale": float(spec.embedding_multiplier),
        "residual_scale": float(spec.residual_multiplier),
        "logit_scale": float(spec.logits_divisor),
    }


_WRITERS: Final[dict[str, Callable[[ModelSpec], Keys]]] = {
    "mistral": _window,
    "llama": _window,
    "phi3": _window,
    "mixtral": _experts,
    "qwen2_moe": _experts,
    "qwen3_moe": _experts,
    "gemma2": _gemma2,
    "gemma3": _gemma3,
    "granite": _granite,
}
