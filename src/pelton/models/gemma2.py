"""Gemma 2 (Gemma team 2024, arXiv:2408.00118): norms before and behind, soft-capped scores and logits.

Every second layer sees a window only. Checkpoints store norm weights as the difference from one; GGUF files have
added it already. Embeddings are multiplied by the root of the hidden size.
"""

from __future__ import annotations

from pelton.checkpoint.model_spec import ModelSpec
from pelton.models.decoder import (
    attention_rows,
    embed,
    gated_mlp_rows,
    head,
    outer_rows,
    sandwich_layer,
    sandwich_rows,
)
from pelton.plan import Recorder, Value, WeightMap, Weights

WEIGHTS = WeightMap(
    rows=(
        *outer_rows(norm="plus_one"),
        *attention_rows(),
        *gated_mlp_rows(),
        *sandwich_rows(),
    )
)


def record(p: Recorder, spec: ModelSpec, w: Weights, max_model_len: int) -> Value:
    """The logits [S, V] of one step."""
    x_TE = embed(p, spec, w)
    for layer in range(spec.num_layers):
        x_TE = sandwich_layer(p, spec, w.layer(layer), layer, x_TE, max_model_len)
    return head(p, spec, w, x_TE)
