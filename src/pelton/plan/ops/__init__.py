"""The vocabulary of plans. One file per op: signature, shapes, formula, cost, source."""

from pelton.plan.ops.activation import activation
from pelton.plan.ops.add import add
from pelton.plan.ops.attention import attention
from pelton.plan.ops.embedding import embedding
from pelton.plan.ops.experts import experts
from pelton.plan.ops.gated import gated
from pelton.plan.ops.heads import heads
from pelton.plan.ops.layer_norm import layer_norm
from pelton.plan.ops.linear import linear
from pelton.plan.ops.linear_add import linear_add
from pelton.plan.ops.linear_gated import linear_gated
from pelton.plan.ops.rms_norm import rms_norm
from pelton.plan.ops.rotary import rotary
from pelton.plan.ops.route import route
from pelton.plan.ops.scale import scale
from pelton.plan.ops.select_rows import select_rows
from pelton.plan.ops.sigmoid_scale import sigmoid_scale
from pelton.plan.ops.softcap import softcap
from pelton.plan.ops.split import split

__all__ = [
    "activation",
    "add",
    "attention",
    "embedding",
    "experts",
    "gated",
    "heads",
    "layer_norm",
    "linear",
    "linear_add",
    "linear_gated",
    "rms_norm",
    "rotary",
    "route",
    "scale",
    "select_rows",
    "sigmoid_scale",
    "softcap",
    "split",
]
