"""Mistral 7B and its successors (Jiang et al. 2023, arXiv:2310.06825): Llama with a sliding window in the spec.

A head's size may differ from hidden size / heads (Mistral Nemo). In GGUF these models call themselves "llama".
"""

from __future__ import annotations

from pelton.checkpoint.model_spec import ModelSpec
from pelton.models.decoder import (
    attention_rows,
    embed,
    gated_mlp_rows,
    head,
    outer_rows,
    pre_norm_layer,
    pre_norm_rows,
)
from pelton.plan import Recorder, Value, WeightMap, Weights

WEIGHTS = WeightMap(rows=(*outer_rows(), *pre_norm_rows(), *attention_rows(gguf_permutes=True), *gated_mlp_rows()))


def record(p: Recorder, spec: ModelSpec, w: Weights, max_model_len: int) -> Value:
    """The logits [S, V] of one step."""
    x_TE = embed(p, spec, w)
    for layer in range(spec.num_layers):
        x_TE = pre_norm_layer(p, spec, w.layer(layer), layer, x_TE, max_model_len)
    return head(p, spec, w, x_TE)
