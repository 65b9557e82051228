"""Ops that read a matrix of weights."""

from __future__ import annotations

from pelton.backends.reference.array import Array, Int32
from pelton.backends.reference.elementwise import gated


def embedding(ids_T: Int32, weight_VE: Array) -> Array:
    """One row of the table per id."""
    return weight_VE[ids_T]


def linear(x_TK: Array, weight_NK: Array, bias_N: Array | None) -> Array:
    """x @ weight.T + bias. numpy's product, whose order of sums may depend on the number of rows."""
    y_TN: Array = x_TK @ weight_NK.T
    return y_TN if bias_N is None else y_TN + bias_N


def linear_add(x_TK: Array, other_TN: Array, weight_NK: Array, bias_N: Array | None) -> Array:
    """linear, then add."""
    return linear(x_TK, weight_NK, bias_N) + other_TN


def linear_gated(x_TK: Array, weight_F2K: Array, bias_F2: Array | None, *, kind: str) -> Array:
    """linear, then gated."""
    return gated(linear(x_TK, weight_F2K, bias_F2), kind=kind)
