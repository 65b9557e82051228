"""Ops that treat every element, or every pair of elements, alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import MappingProxyType

import numpy as np

from pelton.backends.reference.array import Array

# numpy has no erf; a loop in Python is exact and fast enough for a definition.
ERF: Callable[[Array], Array] = np.vectorize(math.erf, otypes=[np.float64])


def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x)), written so that no exponential overflows."""
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + e), e / (1 + e))


def silu(x: Array) -> Array:
    """x * sigmoid(x)."""
    return x * sigmoid(x)


def gelu(x: Array) -> Array:
    """0.5 x (1 + erf(x / sqrt 2))."""
    y: Array = 0.5 * x * (1 + ERF(x / math.sqrt(2.0)).astype(x.dtype))
    return y


def gelu_tanh(x: Array) -> Array:
    """0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))."""
    y: Array = 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))
    return y


def relu(x: Array) -> Array:
    """max(x, 0)."""
    return np.maximum(x, 0)


def relu2(x: Array) -> Array:
    """max(x, 0)^2."""
    return np.square(np.maximum(x, 0))


ACTIVATIONS = MappingProxyType({"silu": silu, "gelu": gelu, "gelu_tanh": gelu_tanh, "relu": relu, "relu2": relu2})


def activation(x: Array, *, kind: str) -> Array:
    """act(x)."""
    return ACTIVATIONS[kind](x)


def add(x: Array, other: Array) -> Array:
    """x + other."""
    return x + other


def gated(x_TF2: Array, *, kind: str) -> Array:
    """act of the first half times the second half."""
    gate_TF, up_TF = np.split(x_TF2, 2, axis=-1)
    return ACTIVATIONS[kind](gate_TF) * up_TF


def scale(x: Array, *, factor: float) -> Array:
    """factor * x."""
    return x * factor


def sigmoid_scale(x_TE: Array, gate_T1: Array) -> Array:
    """x * sigmoid(gate)."""
    return x_TE * sigmoid(gate_T1)


def softcap(x: Array, *, cap: float) -> Array:
    """cap * tanh(x / cap)."""
    y: Array = cap * np.tanh(x / cap)
    return y
