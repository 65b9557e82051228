"""Llama 1 to 3: the pre-norm decoder that most open models follow (Touvron et al. 2023, arXiv:2302.13971).

Grouped-query attention from Llama 2 on (arXiv:2307.09288); rotary frequencies stretched from 3.1 on
(arXiv:2407.21783); tied embeddings in the small 3.2 models. GGUF files of this family store q and k with neighbouring
pairs, which the rows below undo.
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

WEIGHTS = WeightMap(
    rows=(*outer_rows(), *pre_norm_rows(), *attention_rows(gguf_permutes=True), *gated_mlp_rows()),
    dropped=(
        ("model.layers.{i}.self_attn.rotary_emb.inv_freq", "rotary frequencies are computed from the configuration"),
        ("rope_freqs.weight", "the rotary scaling it holds is part of the specification"),
    ),
)


def record(p: Recorder, spec: ModelSpec, w: Weights, max_model_len: int) -> Value:
    """The logits [S, V] of one step."""
    x_TE = embed(p, spec, w)
    for layer in range(spec.num_layers):
        x_TE = pre_norm_layer(p, spec, w.layer(layer), layer, x_TE, max_model_len)
    return head(p, spec, w, x_TE)
