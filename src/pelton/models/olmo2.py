"""OLMo 2 (OLMo team 2024, arXiv:2501.00656): norms stand behind attention and MLP, and q and k are normalised whole."""

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
    qk_norm_rows,
    self_attention,
)
from pelton.plan import Recorder, Value, WeightMap, Weights, ops

WEIGHTS = WeightMap(
    rows=(
        *outer_rows(),
        *attention_rows(),
        *qk_norm_rows(),
        *gated_mlp_rows(),
        norm_row("post_attn_norm", "post_attention_layernorm", "post_attention_norm"),
        norm_row("post_mlp_norm", "post_feedforward_layernorm", "post_ffw_norm"),
    )
)


def record(p: Recorder, spec: ModelSpec, w: Weights, max_model_len: int) -> Value:
    """The logits [S, V] of one step."""
    x_TE = embed(p, spec, w)
    for layer in range(spec.num_layers):
        lw = w.layer(layer)
        y = self_attention(p, spec, lw, layer, x_TE, max_model_len)
        x_TE = ops.add(p, x_TE, ops.rms_norm(p, y, lw["post_attn_norm"], spec.norm_eps))
        y = gated_mlp(p, spec, lw, x_TE)
        x_TE = ops.add(p, x_TE, ops.rms_norm(p, y, lw["post_mlp_norm"], spec.norm_eps))
    return head(p, spec, w, x_TE)
