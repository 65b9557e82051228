"""Gemma 2 (Gemma team 2024, arXiv:2408.00118): norms before and behind, soft-capped scores and logits.

Every second layer sees a window only. Checkpoints store norm weights as the difference from one; GGUF files have
added it already. Embeddings are multiplied by the root of the hidden size.
"""

from __future__ import annotations

from pelton.checkpoint.model_spec import ModelSpec
from pelton.models.decoder import (
    attention_rows,
    embed,
    gated_mlp,
    gated_mlp_rows,
    head,
    norm_row,
    outer_rows,
    self_attention,
)
from pelton.plan import Recorder, Value, WeightMap, Weights, ops

WEIGHTS = WeightMap(
    rows=(
        *outer_rows(norm="plus_one"),
        *attention_rows(),
        *gated_mlp_rows(),
        norm_row("attn_norm", "input_layernorm", "attn_norm", "plus_one"),
        norm_row("post_attn_norm", "post_attention_layernorm", "post_attention_norm", "plus_one"),
        norm_row("mlp_norm", "pre_feedforward_layernorm", "ffn_norm", "plus_one"),
        norm_row("post_mlp_norm", "post_feedforward_layernorm", "post_ffw_norm", "plus_one"),
    )
)


def record(p: Recorder, spec: ModelSpec, w: Weights, max_model_len: int) -> Value:
    """The logits [S, V] of one step."""
    x_TE = embed(p, spec, w)
    for layer in range(spec.num_layers):
        lw = w.layer(layer)
        h = ops.rms_norm(p, x_TE, lw["attn_norm"], spec.norm_eps)
        y = self_attention(p, spec, lw, layer, h, max_model_len)
        x_TE = ops.add(p, x_TE, ops.rms_norm(p, y, lw["post_attn_norm"], spec.norm_eps))
        h = ops.rms_norm(p, x_TE, lw["mlp_norm"], spec.norm_eps)
        y = gated_mlp(p, spec, lw, h)
        x_TE = ops.add(p, x_TE, ops.rms_norm(p, y, lw["post_mlp_norm"], spec.norm_eps))
    return head(p, spec, w, x_TE)
