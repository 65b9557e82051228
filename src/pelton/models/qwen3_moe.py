"""Qwen3-MoE (Yang et al. 2025, arXiv:2505.09388): Qwen3 with many small experts and none that is shared.

Which layers have experts is in the spec; the others have an MLP.
"""

from __future__ import annotations

from pelton.checkpoint.model_spec import ModelSpec
from pelton.models.decoder import attention_rows, outer_rows, pre_norm_rows, qk_norm_rows
from pelton.models.experts import expert_rows, mixed_decoder, plain_mlp_rows, stacked_expert_rows
from pelton.plan import Recorder, Value, WeightMap, Weights

WEIGHTS = WeightMap(
    rows=(
        *outer_rows(),
        *pre_norm_rows(),
        *attention_rows(),
        *qk_norm_rows(),
        *expert_rows(),
        *plain_mlp_rows(),
    ),
    alternatives=stacked_expert_rows(),
)


def record(p: Recorder, spec: ModelSpec, w: Weights, max_model_len: int) -> Value:
    """The logits [S, V] of one step."""
    return mixed_decoder(p, spec, w, max_model_len)
