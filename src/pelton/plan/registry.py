"""The whole vocabulary, in one table. An op exists for backends, tests and costs exactly if it is listed here."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from pelton.plan.op_spec import OpSpec
from pelton.plan.ops.activation import SPEC as ACTIVATION
from pelton.plan.ops.add import SPEC as ADD
from pelton.plan.ops.attention import SPEC as ATTENTION
from pelton.plan.ops.embedding import SPEC as EMBEDDING
from pelton.plan.ops.experts import SPEC as EXPERTS
from pelton.plan.ops.gated import SPEC as GATED
from pelton.plan.ops.heads import SPEC as HEADS
from pelton.plan.ops.layer_norm import SPEC as LAYER_NORM
from pelton.plan.ops.linear import SPEC as LINEAR
from pelton.plan.ops.linear_add import SPEC as LINEAR_ADD
from pelton.plan.ops.linear_gated import SPEC as LINEAR_GATED
from pelton.plan.ops.rms_norm import SPEC as RMS_NORM
from pelton.plan.ops.rotary import SPEC as ROTARY
from pelton.plan.ops.route import SPEC as ROUTE
from pelton.plan.ops.scale import SPEC as SCALE
from pelton.plan.ops.select_rows import SPEC as SELECT_ROWS
from pelton.plan.ops.sigmoid_scale import SPEC as SIGMOID_SCALE
from pelton.plan.ops.softcap import SPEC as SOFTCAP
from pelton.plan.ops.split import SPEC as SPLIT

# Basic ops as a decoder meets them, then the fused ones.
_ALL = (
    EMBEDDING,
    SCALE,
    RMS_NORM,
    LAYER_NORM,
    LINEAR,
    SPLIT,
    HEADS,
    ROTARY,
    ATTENTION,
    ADD,
    GATED,
    ACTIVATION,
    ROUTE,
    EXPERTS,
    SIGMOID_SCALE,
    SELECT_ROWS,
    SOFTCAP,
    LINEAR_ADD,
    LINEAR_GATED,
)

OPS: Mapping[str, OpSpec] = MappingProxyType({spec.name: spec for spec in _ALL})
