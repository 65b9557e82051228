"""What must hold of every ModelSpec, whichever format it was read from, before anything is computed from it."""

from __future__ import annotations

import math

from pelton.checkpoint.model_spec import Experts, ModelSpec, Rope
from pelton.errors import CheckpointError

MAX_LAYERS = 10_000
_MAX_SIZE = 1 << 31
_MAX_EXPERTS = 1 << 14
_MAX_HEAD_DIM = 1 << 14  # one frequency is computed for every two


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
    if spec.head_dim > _MAX_HEAD_DIM:
        raise CheckpointError(f"{source}: heads of {spec.head_dim} dimensions; at most {_MAX_HEAD_DIM} are read.")
    if spec.num_kv_heads < 1 or spec.num_heads % spec.num_kv_heads:
        raise CheckpointError(
            f"{source}: {spec.num_heads} attention heads cannot share {spec.num_kv_heads} key/value heads evenly."
        )
    if not 0.0 < spec.norm_eps < 1.0:
        raise CheckpointError(f"{source}: the norm's epsilon is {spec.norm_eps}; expected a number between 0 and 1.")
    scales = (spec.attention_scale, spec.embedding_multiplier, spec.residual_multiplier, spec.logits_divisor)
    if not all(math.isfinite(scale) for scale in scales) or spec.logits_divisor == 0.0:
        raise CheckpointError(f"{source}: one of the multipliers {scales} is not a finite number, or divides by zero.")
    if spec.experts is not None:
        _check_experts(spec.experts, source)
    for rope in {layer.rope for layer in spec.layers if layer.rope is not None}:
        _check_rope(rope, spec.head_dim, source)


def _check_experts(experts: Experts, source: str) -> None:
    if not 1 <= experts.num_experts_per_token <= experts.num_experts <= _MAX_EXPERTS:
        raise CheckpointError(
            f"{source}: each token goes to {experts.num_experts_per_token} of {experts.num_experts} experts; "
            f"expected from 1 to all of them, and at most {_MAX_EXPERTS}."
        )
    if not 1 <= experts.intermediate_size <= _MAX_SIZE or not 0 <= experts.shared_intermediate_size <= _MAX_SIZE:
        raise CheckpointError(
            f"{source}: experts of {experts.intermediate_size} and a shared one of {experts.shared_intermediate_size} "
            "channels cannot be right."
        )


def _check_rope(rope: Rope, head_dim: int, source: str) -> None:
    if rope.rotary_dim > head_dim or rope.rotary_dim % 2 or rope.rotary_dim < 2:
        raise CheckpointError(
            f"{source}: {rope.rotary_dim} rotary dimensions do not fit a head of {head_dim}; "
            "expected an even number up to it."
        )
    if rope.theta <= 1.0:
        raise CheckpointError(f"{source}: the rotary base is {rope.theta}; expected a number above 1.")
    scaling = rope.scaling
    if scaling is None or scaling.kind == "linear":
        return
    if scaling.original_max_position < 2:
        raise CheckpointError(
            f"{source}: {scaling.kind} scaling from an original length of {scaling.original_max_position} tokens; "
            "expected at least 2."
        )
    if not scaling.beta_fast > scaling.beta_slow > 0.0:
        raise CheckpointError(
            f"{source}: yarn's beta_fast {scaling.beta_fast} must be above beta_slow {scaling.beta_slow}, "
            "and both above 0."
        )
    if scaling.attention_factor is not None and scaling.attention_factor <= 0.0:
        raise CheckpointError(f"{source}: the attention factor is {scaling.attention_factor}; expected more than 0.")
    if scaling.kind == "dynamic" and rope.rotary_dim <= 2:
        raise CheckpointError(f"{source}: dynamic scaling needs more than 2 rotary dimensions.")
