"""Phi-3 and Phi-4-mini (Abdin et al. 2024, arXiv:2404.14219): Llama whose projections are stored fused.

Long contexts use LongRoPE's two lists of factors; Phi-4-mini turns only part of each head.
"""

from __future__ import annotations

from pelton.checkpoint.model_spec import ModelSpec
from pelton.models.decoder import embed, head, outer_rows, pre_norm_layer, pre_norm_rows
from pelton.plan import Recorder, Row, Value, WeightMap, Weights

LAYER = "model.layers.{i}"
WEIGHTS = WeightMap(
    rows=(
        *outer_rows(),
        *pre_norm_rows(),
        Row(to="layers.{i}.qkv", hf=f"{LAYER}.self_attn.qkv_proj.weight", gguf="blk.{i}.attn_qkv.weight"),
        Row(to="layers.{i}.out", hf=f"{LAYER}.self_attn.o_proj.weight", gguf="blk.{i}.attn_output.weight"),
        Row(to="layers.{i}.gate_up", hf=f"{LAYER}.mlp.gate_up_proj.weight", gguf="blk.{i}.ffn_up.weight"),
        Row(to="layers.{i}.down", hf=f"{LAYER}.mlp.down_proj.weight", gguf="blk.{i}.ffn_down.weight"),
    ),
    dropped=(
        ("rope_factors_long.weight", "the rotary factors it holds are part of the specification"),
        ("rope_factors_short.weight", "the rotary factors it holds are part of the specification"),
    ),
)


def record(p: Recorder, spec: ModelSpec, w: Weights, max_model_len: int) -> Value:
    """The logits [S, V] of one step."""
    x_TE = embed(p, spec, w)
    for layer in range(spec.num_layers):
        x_TE = pre_norm_layer(p, spec, w.layer(layer), layer, x_TE, max_model_len)
    return head(p, spec, w, x_TE)
