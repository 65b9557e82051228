"""Mixtral (Jiang et al. 2024, arXiv:2401.04088): Mistral with eight experts in the place of every MLP.

In GGUF these models call themselves "llama" and say how many experts they have.
"""

from __future__ import annotations

from pelton.checkpoint.model_spec import ModelSpec
from pelton.models.decoder import attention_rows, outer_rows, pre_norm_rows
from pelton.models.experts import expert_rows, has_experts, mixed_decoder, stacked_expert_rows
from pelton.plan import Recorder, Row, Value, WeightMap, Weights

WEIGHTS = WeightMap(
    rows=(
        *outer_rows(),
        *pre_norm_rows(),
        *attention_rows(gguf_permutes=True),
        *expert_rows("block_sparse_moe", ("w1", "w3", "w2")),
    ),
    alternatives=(
        Row(to="layers.{i}.router", hf="model.layers.{i}.mlp.gate.weight", gguf=None, in_layer=has_experts),
        *stacked_expert_rows(),
    ),
)


def record(p: Recorder, spec: ModelSpec, w: Weights, max_model_len: int) -> Value:
    """The logits [S, V] of one step."""
    return mixed_decoder(p, spec, w, max_model_len)
