"""Normalisations over the last axis. Sums in the dtype of the program."""

from __future__ import annotations

import numpy as np

from pelton.backends.reference.array import Array


def rms_norm(x: Array, weight_E: Array | None, *, eps: float) -> Array:
    """x / sqrt(mean(x^2) + eps) * weight."""
    y: Array = x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps)
    return y if weight_E is None else y * weight_E


def layer_norm(x: Array, weight_E: Array, bias_E: Array | None, *, eps: float) -> Array:
    """(x - mean) / sqrt(variance + eps) * weight + bias."""
    centred = x - np.mean(x, axis=-1, keepdims=True)
    y: Array = centred / np.sqrt(np.mean(centred * centred, axis=-1, keepdims=True) + eps) * weight_E
    return y if bias_E is None else y + bias_E
