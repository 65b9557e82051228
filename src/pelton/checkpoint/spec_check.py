"""What must hold of every ModelSpec, whichever format it was read from, before anything is computed from it."""

from __future__ import annotations

import math

from pelton.checkpoint.model_spec import ModelSpec
from pelton.errors import CheckpointError

MAX_LAYERS = 10_000
_MAX_SIZE = 1 << 31


def check_spec(spec: ModelSpec, source: str) -> None:
    """Raise CheckpointError where sizes contradict one another or a number cannot be computed with."""
    sizes = (
        spec.vocab_size,
        spec.hidden_size,
        spec.intermediate_size,
        spec.num_heads,
        spec.head_dim,
        spec.max_position,
    )
    if min(sizes) < 1 or max(sizes) > _MAX_SIZE:
        raise CheckpointError(f"{source}: the sizes {sizes} cannot all be right; each must be from 1 to {_MAX_SIZE}.")
    if spec.num_kv_heads < 1 or spec.num_heads % spec.num_kv_heads:
        raise CheckpointError(
            f"{source}: {spec.num_heads} attention heads cannot share {spec.num_kv_heads} key/value heads evenly."
        )
    if not 0.0 < spec.norm_eps < 1.0:
        raise CheckpointError(f"{source}: the norm's epsilon is {spec.norm_eps}; expected a number between 0 and 1.")
    scales = (spec.attention_scale, spec.embedding_multiplier, spec.residual_multiplier, spec.logits_divisor)
    if not all(math.isfinite(scale) for scale in scales) or spec.logits_divisor == 0.0:
        raise CheckpointError(f"{source}: one of the multipliers {scales} is not a finite number, or divides by zero.")
    for layer in spec.layers:
        if layer.rope is not None and (layer.rope.rotary_dim > spec.head_dim or layer.rope.rotary_dim % 2):
            raise CheckpointError(
                f"{source}: {layer.rope.rotary_dim} rotary dimensions do not fit a head of {spec.head_dim}; "
                "expected an even number up to it."
            )
