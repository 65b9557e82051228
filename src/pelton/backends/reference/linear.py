"""Ops that read a matrix of weights."""

from __future__ import annotations

from pelton.backends.reference.array import Array, Int32


def embedding(ids_T: Int32, weight_VE: Array) -> Array:
    """One row of the table per id."""
    return weight_VE[ids_T]


def linear(x_TK: Array, weight_NK: Array, bias_N: Array | None) -> Array:
    """x @ weight.T + bias. numpy's product, whose order of sums may depend on the number of rows."""
    y_TN: Array = x_TK @ weight_NK.T
    return y_TN if bias_N is None else y_TN + bias_N
