"""Rotary position embedding in the half-split pairing. Angles, sines and cosines in float64."""

from __future__ import annotations

import numpy as np

from pelton.backends.reference.array import Array, Int32


def rotary(x_THD: Array, positions_T: Int32, *, inv_freq: tuple[float, ...], attention_factor: float) -> Array:
    """Dimension i turned with dimension i + r/2 by position * inv_freq[i]; dimensions from r on pass."""
    half = len(inv_freq)
    angle_T1I = positions_T[:, None, None] * np.asarray(inv_freq, np.float64)
    cos = (np.cos(angle_T1I) * attention_factor).astype(x_THD.dtype)
    sin = (np.sin(angle_T1I) * attention_factor).astype(x_THD.dtype)
    first, second, rest = np.split(x_THD, (half, 2 * half), axis=-1)
    return np.concatenate((first * cos - second * sin, second * cos + first * sin, rest), axis=-1)
