"""The pieces that most decoders are made of: self-attention, the gated MLP, the head, and the rows of their weights.

A model file puts them together and says where its norms and multipliers stand; what varies from checkpoint to
checkpoint (biases, windows, rotary scaling, soft-caps) comes from the spec. Nothing here depends on a family.
Shapes: T tokens, E hidden size, H query heads, K key/value heads, D head dimension, F feed-forward size, V vocabulary.
"""

from __future__ import annotations

from pelton.checkpoint.model_spec import LayerSpec, ModelSpec
from pelton.checkpoint.rope import rotary_frequencies
from pelton.plan import Recorder, Row, Value, Weights, ops
from pelton.plan.weight_map import Transform


def self_attention(p: Recorder, spec: ModelSpec, w: Weights, layer: int, h_TE: Value, max_model_len: int) -> Value:
    """Attention of one layer over its own past, q, k and v from one product: [T, E]."""
    layer_spec = spec.layers[layer]
    q, k, v = ops.split(p, ops.linear(p, h_TE, w["qkv"], w.get("qkv_bias")), spec.qkv_sizes)
    if spec.qk_norm == "full":
        q, k = ops.rms_norm(p, q, w["q_norm"], spec.norm_eps), ops.rms_norm(p, k, w["k_norm"], spec.norm_eps)
    q_THD, k_TKD = ops.heads(p, q, spec.num_heads), ops.heads(p, k, spec.num_kv_heads)
    if spec.qk_norm == "head":
        q_THD = ops.rms_norm(p, q_THD, w["q_norm"], spec.norm_eps)
        k_TKD = ops.rms_norm(p, k_TKD, w["k_norm"], spec.norm_eps)
    y_TE = ops.attention(
        p,
        turn(p, layer_spec, q_THD, max_model_len),
        turn(p, layer_spec, k_TKD, max_model_len),
        ops.heads(p, v, spec.num_kv_heads),
        layer,
        scale=spec.attention_scale,
        window=layer_spec.window,
        softcap=spec.attention_softcap,
    )
    return ops.linear(p, y_TE, w["out"], w.get("out_bias"))


def turn(p: Recorder, layer_spec: LayerSpec, x_THD: Value, max_model_len: int) -> Value:
    """`x_THD` with its positions in it, or untouched where the layer has no rotary embedding."""
    if layer_spec.rope is None:
        return x_THD
    return ops.rotary(p, x_THD, *rotary_frequencies(layer_spec.rope, max_model_len))


def gated_mlp(p: Recorder, spec: ModelSpec, w: Weights, h_TE: Value) -> Value:
    """down(act(gate(h)) * up(h)), gate and up from one product: [T, E]."""
    y_TF2 = ops.linear(p, h_TE, w["gate_up"], w.get("gate_up_bias"))
    return ops.linear(p, ops.gated(p, y_TF2, spec.activation), w["down"], w.get("down_bias"))


def embed(p: Recorder, spec: ModelSpec, w: Weights) -> Value:
    """The step's tokens as vectors: [T, E]."""
    return ops.scale(p, ops.embedding(p, p.token_ids, w["embed"]), spec.embedding_multiplier)


def head(p: Recorder, spec: ModelSpec, w: Weights, x_TE: Value) -> Value:
    """Logits of the rows that the step asks for, through the last norm and the head (tied or not): [S, V]."""
    h_SE = ops.rms_norm(p, ops.select_rows(p, x_TE), w["norm"], spec.norm_eps)
    logits_SV = ops.linear(p, h_SE, w["embed" if spec.tied_embeddings else "lm_head"])
    return ops.softcap(p, ops.scale(p, logits_SV, 1.0 / spec.logits_divisor), spec.logits_softcap)


def pre_norm_layer(p: Recorder, spec: ModelSpec, w: Weights, layer: int, x_TE: Value, max_model_len: int) -> Value:
    """x + attention(norm(x)), then x + mlp(norm(x)): the layer of Llama and its many relatives."""
    h = ops.rms_norm(p, x_TE, w["attn_norm"], spec.norm_eps)
    y = self_attention(p, spec, w, layer, h, max_model_len)
    x_TE = ops.add(p, x_TE, ops.scale(p, y, spec.residual_multiplier))
    h = ops.rms_norm(p, x_TE, w["mlp_norm"], spec.norm_eps)
    return ops.add(p, x_TE, ops.scale(p, gated_mlp(p, spec, w, h), spec.residual_multiplier))


def sandwich_layer(p: Recorder, spec: ModelSpec, w: Weights, layer: int, x_TE: Value, max_model_len: int) -> Value:
    """x + norm(attention(norm(x))), then the same with the MLP: the layer of Gemma 2 and 3."""
    h = ops.rms_norm(p, x_TE, w["attn_norm"], spec.norm_eps)
    y = self_attention(p, spec, w, layer, h, max_model_len)
    x_TE = ops.add(p, x_TE, ops.rms_norm(p, y, w["post_attn_norm"], spec.norm_eps))
    h = ops.rms_norm(p, x_TE, w["mlp_norm"], spec.norm_eps)
    y = gated_mlp(p, spec, w, h)
    return ops.add(p, x_TE, ops.rms_norm(p, y, w["post_mlp_norm"], spec.norm_eps))


def outer_rows(norm: Transform = "none") -> tuple[Row, ...]:
    """Rows of the embedding, the last norm and the head. `norm` is what this family's norms need on the way in."""
    return (
        Row(to="embed", hf="model.embed_tokens.weight", gguf="token_embd.weight", shard="rows"),
        Row(to="norm", hf="model.norm.weight", gguf="output_norm.weight", transform=norm),
        Row(
            to="lm_head",
            hf="lm_head.weight",
            gguf="output.weight",
            shard="rows",
            when=lambda spec: not spec.tied_embeddings,
            spare="the head is tied to the embedding",
            copies="embed",
        ),
    )


def attention_rows(*, gguf_permutes: bool = False) -> tuple[Row, ...]:
    """Rows of q, k, v and the output, with their biases. `gguf_permutes`: the family's GGUF pairs neighbours."""
    rows: list[Row] = []
    for kind, when in (("weight", lambda spec: True), ("bias", lambda spec: spec.qkv_bias)):
        for part in "qkv":
            permute: Transform = "none"
            if gguf_permutes and part != "v":
                permute = "rope_rows_q" if part == "q" else "rope_rows_k"
            rows.append(
                Row(
                    to="layers.{i}.qkv" + ("" if kind == "weight" else "_bias"),
                    hf=f"model.layers.{{i}}.self_attn.{part}_proj.{kind}",
                    gguf=f"blk.{{i}}.attn_{part}.{kind}",
                    gguf_transform=permute,
                    shard="rows",
                    when=when,
                )
            )
    out = "model.layers.{i}.self_attn.o_proj"
    rows.append(Row(to="layers.{i}.out", hf=f"{out}.weight", gguf="blk.{i}.attn_output.weight", shard="columns"))
    rows.append(
        Row(
            to="layers.{i}.out_bias",
            hf=f"{out}.bias",
            gguf="blk.{i}.attn_output.bias",
            when=lambda spec: spec.out_bias,
        )
    )
    return tuple(rows)


def gated_mlp_rows() -> tuple[Row, ...]:
    """Rows of gate, up and down, with their biases."""
    rows: list[Row] = []
    for kind, when in (("weight", lambda spec: True), ("bias", lambda spec: spec.mlp_bias)):
        suffix = "" if kind == "weight" else "_bias"
        for part, to in (("gate", "gate_up"), ("up", "gate_up"), ("down", "down")):
            rows.append(
                Row(
                    to=f"layers.{{i}}.{to}{suffix}",
                    hf=f"model.layers.{{i}}.mlp.{part}_proj.{kind}",
                    gguf=f"blk.{{i}}.ffn_{part}.{kind}",
                    shard="columns" if part == "down" and kind == "weight" else "rows",
                    when=when,
                )
            )
    return tuple(rows)


def norm_row(to: str, hf: str, gguf: str, transform: Transform = "none") -> Row:
    """The row of one per-layer norm weight: `hf` and `gguf` are the names below the layer."""
    return Row(
        to=f"layers.{{i}}.{to}",
        hf=f"model.layers.{{i}}.{hf}.weight",
        gguf=f"blk.{{i}}.{gguf}.weight",
        transform=transform,
    )


def pre_norm_rows() -> tuple[Row, ...]:
    """Rows of the two norms of a pre-norm layer."""
    return (
        norm_row("attn_norm", "input_layernorm", "attn_norm"),
        norm_row("mlp_norm", "post_attention_layernorm", "ffn_norm"),
    )


def sandwich_rows() -> tuple[Row, ...]:
    """Rows of the four norms of a sandwich layer, which Hugging Face files store as the difference from one."""
    return (
        norm_row("attn_norm", "input_layernorm", "attn_norm", "plus_one"),
        norm_row("post_attn_norm", "post_attention_layernorm", "post_attention_norm", "plus_one"),
        norm_row("mlp_norm", "pre_feedforward_layernorm", "ffn_norm", "plus_one"),
        norm_row("post_mlp_norm", "post_feedforward_layernorm", "post_ffw_norm", "plus_one"),
    )


def qk_norm_rows(transform: Transform = "none") -> tuple[Row, ...]:
    """Rows of the norms of queries and keys."""
    return (
        norm_row("q_norm", "self_attn.q_norm", "attn_q_norm", transform),
        norm_row("k_norm", "self_attn.k_norm", "attn_k_norm", transform),
    )
