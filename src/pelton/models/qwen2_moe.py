"""Qwen2-MoE and Qwen1.5-MoE (Yang et al. 2024, arXiv:2407.10671): Qwen2 with small experts, and one that all share.

Which layers have experts is in the spec; the others have an MLP.
"""

from __future__ import annotations

from pelton.checkpoint.model_spec import ModelSpec
from pelton.models.decoder import attention_rows, outer_rows, pre_norm_rows
from pelton.models.experts import expert_rows, mixed_decoder, plain_mlp_rows, shared_expert_rows, stacked_expert_rows
from pelton.plan import Recorder, Value, WeightMap, Weights

WEIGHTS = WeightMap(
    rows=(
        *outer_rows(),
        *pre_norm_rows(),
        *attention_rows(),
        *expert_rows(),
        *shared_expert_rows(),
        *plain_mlp_rows(),
    ),
    alternatives=stacked_expert_rows(),
)


def record(p: Recorder, spec: ModelSpec, w: Weights, max_model_len: int) -> Value:
    """The logits [S, V] of one step."""
    return mixed_decoder(p, spec, w, max_model_len)
