"""The rotary part of GGUF metadata, and the tensors that belong to it.

Linear and YaRN scaling are keys. LongRoPE's factors are the tensors `rope_factors_short` and `rope_factors_long`, and
Llama 3's stretching is the tensor `rope_freqs`, one divisor per frequency. YaRN's attention factor in a file comes on
top of the 0.1 ln(factor) + 1 that llama.cpp always applies.
"""

from __future__ import annotations

import numpy as np

from pelton.checkpoint.fields import Fields
from pelton.checkpoint.gguf.container import Container
from pelton.checkpoint.model_spec import Rope, RopeScaling
from pelton.checkpoint.rope import longrope_attention_factor, yarn_attention_factor
from pelton.errors import CheckpointError

_KINDS = {"none": None, "linear": "linear", "yarn": "yarn", "longrope": "longrope"}


def read_rope(fields: Fields, container: Container, *, head_dim: int, max_position: int, theta: float | None) -> Rope:
    """The rotary embedding of all layers (of those without a window, where a model has two)."""
    rotary_dim = fields.integer("rope.dimension_count", head_dim)
    if rotary_dim > head_dim or rotary_dim % 2:
        raise fields.error(f"rope.dimension_count is {rotary_dim}; expected an even number up to {head_dim}.")
    base = fields.positive("rope.freq_base", theta)
    scaling = _read_scaling(fields, max_position)
    factors = {
        name: _read_factors(container, f"{name}.weight", rotary_dim // 2)
        for name in ("rope_freqs", "rope_factors_short", "rope_factors_long")
    }
    divisors, short, long = factors.values()
    if divisors:
        if scaling is not None:
            raise fields.error(f"has both rope_freqs.weight and {scaling.kind} scaling, which is not supported.")
        scaling = RopeScaling(
            kind="longrope",
            attention_factor=1.0,
            original_max_position=max_position,
            short_factors=divisors,
            long_factors=divisors,
        )
    elif short or long:
        scaling = _make_longrope(fields, scaling, short, long, max_position)
    elif scaling is not None and scaling.kind == "longrope":
        raise fields.error("rope.scaling.type is longrope and the tensors rope_factors_short and _long are missing.")
    return Rope(theta=base, rotary_dim=rotary_dim, scaling=scaling)


def _read_scaling(fields: Fields, max_position: int) -> RopeScaling | None:
    legacy = fields.nullable_number("rope.scale_linear")  # of the format's first months
    factor = fields.positive("rope.scaling.factor", legacy or 1.0)
    original = fields.integer("rope.scaling.original_context_length", max_position)
    attention = fields.nullable_number("rope.scaling.attn_factor")
    yarn_attention = fields.nullable_number("rope.scaling.yarn_attn_factor")
    fields.require("rope.scaling.yarn_log_multiplier", 0.0)
    fields.require("rope.scaling.yarn_ext_factor", 1.0, -1.0)
    beta_fast = fields.positive("rope.scaling.yarn_beta_fast", 32.0)
    beta_slow = fields.positive("rope.scaling.yarn_beta_slow", 1.0)
    # A factor without a type is linear, as llama.cpp reads it.
    kind = fields.choice("rope.scaling.type", _KINDS, "none" if factor == 1.0 else "linear")
    if kind == "linear":
        return RopeScaling(kind="linear", factor=factor) if factor != 1.0 else None
    if kind == "yarn":
        extra = (attention or 1.0) * (yarn_attention or 1.0)
        scaling = RopeScaling(
            kind="yarn", factor=factor, original_max_position=original, beta_fast=beta_fast, beta_slow=beta_slow
        )
        if extra == 1.0:
            return scaling
        return RopeScaling(
            kind="yarn",
            factor=factor,
            original_max_position=original,
            beta_fast=beta_fast,
            beta_slow=beta_slow,
            attention_factor=extra * yarn_attention_factor(scaling),
        )
    if kind == "longrope" or attention is not None:
        return RopeScaling(kind="longrope", original_max_position=original, attention_factor=attention)
    return None


def _make_longrope(
    fields: Fields,
    scaling: RopeScaling | None,
    short: tuple[float, ...],
    long: tuple[float, ...],
    max_position: int,
) -> RopeScaling:
    if not short or not long:
        raise fields.error("has one of the tensors rope_factors_short and rope_factors_long; longrope needs both.")
    if scaling is not None and scaling.kind != "longrope":
        raise fields.error(f"has longrope factors and rope.scaling.type {scaling.kind!r}; they contradict each other.")
    original = fields.integer("rope.scaling.original_context_length", max_position)
    made = RopeScaling(
        kind="longrope",
        factor=max_position / original,
        original_max_position=original,
        short_factors=short,
        long_factors=long,
    )
    given = None if scaling is None else scaling.attention_factor
    if given is None or abs(given - longrope_attention_factor(made)) < 1e-6:
        return made  # files store what the formula gives
    return RopeScaling(
        kind="longrope",
        factor=made.factor,
        original_max_position=original,
        attention_factor=given,
        short_factors=short,
        long_factors=long,
    )


def _read_factors(container: Container, name: str, count: int) -> tuple[float, ...]:
    """The numbers of a small float32 tensor, or nothing where there is none."""
    tensor = container.tensors.get(name)
    if tensor is None:
        return ()
    if tensor.info.scheme != "F32" or tensor.info.shape != (count,):
        raise CheckpointError(
            f"{container.file.path}: {name} is {tensor.info.scheme} {list(tensor.info.shape)}, expected F32 [{count}]."
        )
    values = tensor.file.rows(tensor.offset, 1, tensor.info.nbytes).reshape(-1).view("<f4")
    if not np.isfinite(values).all() or values.min() <= 0.0:
        raise CheckpointError(f"{container.file.path}: {name} has entries that are not above 0.")
    return tuple(float(str(value)) for value in values)
