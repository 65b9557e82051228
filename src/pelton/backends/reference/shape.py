"""Ops that only read an array another way."""

from __future__ import annotations

import numpy as np

from pelton.backends.reference.array import Array


def heads(x_TE: Array, *, num_heads: int) -> Array:
    """[T, H*D] as [T, H, D]."""
    return x_TE.reshape(len(x_TE), num_heads, x_TE.shape[-1] // num_heads)


def split(x: Array, *, sizes: tuple[int, ...]) -> tuple[Array, ...]:
    """Pieces of the last axis, of the given sizes."""
    return tuple(np.split(x, np.cumsum(sizes)[:-1], axis=-1))
