"""Weights as dense arrays, dequantized when first used and kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pelton.backends.reference.array import Array
from pelton.checkpoint.dequantize import dequantize
from pelton.checkpoint.weight import Weight


@dataclass(slots=True)
class DenseWeights:
    """Weights by plan name. A weight costs its dense size in memory from its first use on."""

    weights: Mapping[str, Weight]
    dtype: np.dtype[np.floating[Any]]
    _dense: dict[str, Array] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Array:
        """The dense array of the weight called `name`."""
        if name not in self._dense:
            parts = [dequantize(part).astype(self.dtype, copy=False) for part in self.weights[name].parts]
            self._dense[name] = parts[0] if len(parts) == 1 else np.concatenate(parts)
        return self._dense[name]
