"""A ModelSpec in words: what a person wants to know of a model before it is loaded."""

from __future__ import annotations

from itertools import groupby

from pelton.checkpoint.model_spec import LayerSpec, ModelSpec, Rope, RopeScaling


def describe_shape(spec: ModelSpec) -> str:
    """Layers, width, MLP.

    >>> from pelton.checkpoint.model_spec import LayerSpec, ModelSpec
    >>> sizes = dict(vocab_size=9, hidden_size=64, intermediate_size=96, num_heads=8, num_kv_heads=2, head_dim=8)
    >>> spec = ModelSpec(architecture="llama", **sizes, max_position=32, layers=(LayerSpec(rope=None),) * 3,
    ...                  norm_eps=1e-5, attention_scale=0.5)
    >>> describe_shape(spec)
    '3 layers of 64 channels, MLP 96 (silu)'
    >>> describe_heads(spec)
    '8 heads of 8 dimensions over 2 key/value heads, scores scaled by 0.5'
    """
    mlp = f"MLP {spec.intermediate_size} ({spec.activation})"
    experts = spec.experts
    if experts is not None:
        number = sum(layer.has_experts for layer in spec.layers)
        where = "" if number == spec.num_layers else f" in {number} of the layers, otherwise {mlp}"
        shared = f", one shared of {experts.shared_intermediate_size}" if experts.shared_intermediate_size else ""
        mlp = (
            f"{experts.num_experts_per_token} of {experts.num_experts} experts of {experts.intermediate_size}"
            f"{shared}{where}"
        )
    return f"{spec.num_layers} layers of {spec.hidden_size} channels, {mlp}"


def describe_heads(spec: ModelSpec) -> str:
    """Heads, and what is unusual about their attention."""
    ending = "" if spec.num_kv_heads == 1 else "s"
    shared = "" if spec.num_kv_heads == spec.num_heads else f" over {spec.num_kv_heads} key/value head{ending}"
    parts = [f"{spec.num_heads} heads of {spec.head_dim} dimensions{shared}"]
    biases = {"q, k, v": spec.qkv_bias, "attention output": spec.out_bias, "MLP": spec.mlp_bias}
    if any(biases.values()):
        parts.append(f"biases on {' and '.join(name for name, has in biases.items() if has)}")
    if spec.qk_norm is not None:
        parts.append(f"q and k normalised {'per head' if spec.qk_norm == 'head' else 'over all heads'}")
    if abs(spec.attention_scale - spec.head_dim**-0.5) > 1e-9:
        parts.append(f"scores scaled by {spec.attention_scale:.6g}")
    caps = {"scores": spec.attention_softcap, "logits": spec.logits_softcap}
    parts += [f"{name} capped at {cap:g}" for name, cap in caps.items() if cap is not None]
    return ", ".join(parts)


def describe_context(spec: ModelSpec) -> str:
    """How many tokens, and how far a layer sees."""
    windows = [layer.window for layer in spec.layers]
    if not any(windows):
        return f"{spec.max_position:,} tokens, full attention"
    runs = list(groupby(windows))
    if len(runs) == 1:
        return f"{spec.max_position:,} tokens, a window of {windows[0]:,} in every layer"
    num_full = windows.count(None)
    sizes = " and ".join(f"{size:,}" for size in sorted({window for window in windows if window is not None}))
    full = ", ".join(str(layer) for layer, window in enumerate(windows) if window is None)
    places = f"layers {full}" if num_full <= 8 else f"{num_full} layers"
    return f"{spec.max_position:,} tokens, a window of {sizes}; full attention in {places}"


def describe_rope(spec: ModelSpec) -> str:
    """The rotary embeddings, each with the layers it is for."""
    if spec.learned_positions:
        return f"learned, {spec.learned_positions:,} rows"
    kinds: dict[Rope | None, list[int]] = {}
    for index, layer in enumerate(spec.layers):
        kinds.setdefault(layer.rope, []).append(index)
    if len(kinds) == 1:
        return _one_rope(spec.layers[0], spec)
    parts = []
    for rope, layers in kinds.items():
        window = any(spec.layers[layer].window for layer in layers) and rope is not None
        where = "windowed layers" if window else f"{len(layers)} {'layer' if len(layers) == 1 else 'layers'}"
        parts.append(f"{where}: {_one_rope(spec.layers[layers[0]], spec)}")
    return "; ".join(parts)


def _one_rope(layer: LayerSpec, spec: ModelSpec) -> str:
    rope = layer.rope
    if rope is None:
        return "none"
    partial = "" if rope.rotary_dim == spec.head_dim else f", {rope.rotary_dim} of {spec.head_dim} dimensions"
    scaling = "no scaling" if rope.scaling is None else describe_scaling(rope.scaling)
    return f"rotary, base {rope.theta:,.10g}{partial}, {scaling}"


def describe_scaling(scaling: RopeScaling) -> str:
    """One scaling with the numbers that its kind uses."""
    if scaling.kind == "linear":
        return f"linear scaling by {scaling.factor:g}"
    original = f"from {scaling.original_max_position:,} tokens"
    if scaling.kind == "longrope":
        if scaling.short_factors == scaling.long_factors:
            return f"frequencies divided by {min(scaling.long_factors):g} to {max(scaling.long_factors):g}"
        return f"longrope {original}"
    return f"{scaling.kind} scaling by {scaling.factor:g} {original}"


def describe_head(spec: ModelSpec) -> str:
    """The vocabulary's rows, and what becomes of the embedding and of logits."""
    parts = [f"{spec.vocab_size:,} rows, head {'tied to the embedding' if spec.tied_embeddings else 'of its own'}"]
    if spec.embedding_multiplier != 1.0:
        parts.append(f"embedding times {spec.embedding_multiplier:g}")
    if spec.residual_multiplier != 1.0:
        parts.append(f"residuals times {spec.residual_multiplier:g}")
    if spec.logits_divisor != 1.0:
        parts.append(f"logits divided by {spec.logits_divisor:g}")
    return ", ".join(parts)
