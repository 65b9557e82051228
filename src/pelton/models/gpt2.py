"""GPT-2 (Radford et al. 2019): layer norms with biases, learned positions, a plain MLP.

The oldest family here and the one that shares least: its linears are stored [in, out], its head is tied. Files of the
first release leave out the prefix "transformer." and carry the causal mask as a buffer.
"""

from __future__ import annotations

from pelton.checkpoint.model_spec import ModelSpec
from pelton.models.decoder import self_attention
from pelton.plan import Recorder, Row, Value, WeightMap, Weights, ops
from pelton.plan.weight_map import Transform


def layer_row(to: str, hf: str, gguf: str, transform: Transform = "none") -> Row:
    """The row of one per-layer tensor: `hf` and `gguf` are the names below the layer."""
    return Row(to=f"layers.{{i}}.{to}", hf=f"transformer.h.{{i}}.{hf}", gguf=f"blk.{{i}}.{gguf}", transform=transform)


WEIGHTS = WeightMap(
    rows=(
        Row(to="embed", hf="transformer.wte.weight", gguf="token_embd.weight"),
        Row(to="positions", hf="transformer.wpe.weight", gguf="position_embd.weight"),
        Row(to="norm", hf="transformer.ln_f.weight", gguf="output_norm.weight"),
        Row(to="norm_bias", hf="transformer.ln_f.bias", gguf="output_norm.bias"),
        Row(
            to="lm_head",
            hf="lm_head.weight",
            gguf="output.weight",
            when=lambda spec: not spec.tied_embeddings,
            spare="the head is tied to the embedding",
            copies="embed",
        ),
        layer_row("attn_norm", "ln_1.weight", "attn_norm.weight"),
        layer_row("attn_norm_bias", "ln_1.bias", "attn_norm.bias"),
        layer_row("qkv", "attn.c_attn.weight", "attn_qkv.weight", "transpose"),
        layer_row("qkv_bias", "attn.c_attn.bias", "attn_qkv.bias"),
        layer_row("out", "attn.c_proj.weight", "attn_output.weight", "transpose"),
        layer_row("out_bias", "attn.c_proj.bias", "attn_output.bias"),
        layer_row("mlp_norm", "ln_2.weight", "ffn_norm.weight"),
        layer_row("mlp_norm_bias", "ln_2.bias", "ffn_norm.bias"),
        layer_row("up", "mlp.c_fc.weight", "ffn_up.weight", "transpose"),
        layer_row("up_bias", "mlp.c_fc.bias", "ffn_up.bias"),
        layer_row("down", "mlp.c_proj.weight", "ffn_down.weight", "transpose"),
        layer_row("down_bias", "mlp.c_proj.bias", "ffn_down.bias"),
    ),
    dropped=(
        ("transformer.h.{i}.attn.bias", "a buffer with the causal mask"),
        ("transformer.h.{i}.attn.masked_bias", "a buffer with the value of masked scores"),
    ),
    prefixes=(("", "transformer."),),
)


def record(p: Recorder, spec: ModelSpec, w: Weights, max_model_len: int) -> Value:
    """The logits [S, V] of one step."""
    x_TE = ops.add(p, ops.embedding(p, p.token_ids, w["embed"]), ops.embedding(p, p.positions, w["positions"]))
    for layer in range(spec.num_layers):
        lw = w.layer(layer)
        h = ops.layer_norm(p, x_TE, lw["attn_norm"], lw["attn_norm_bias"], spec.norm_eps)
        x_TE = ops.add(p, x_TE, self_attention(p, spec, lw, layer, h, max_model_len))
        h = ops.layer_norm(p, x_TE, lw["mlp_norm"], lw["mlp_norm_bias"], spec.norm_eps)
        h = ops.activation(p, ops.linear(p, h, lw["up"], lw["up_bias"]), spec.activation)
        x_TE = ops.add(p, x_TE, ops.linear(p, h, lw["down"], lw["down_bias"]))
    h_SE = ops.layer_norm(p, ops.select_rows(p, x_TE), w["norm"], w["norm_bias"], spec.norm_eps)
    return ops.linear(p, h_SE, w["embed" if spec.tied_embeddings else "lm_head"])
