"""Ratios of two engines' times, and how sure one may be of them.

A block, a leg of each engine, gives one ratio. Blocks are the sample: their median, with a percentile bootstrap (Efron
1979) over blocks. Which engine goes first changes from block to block, so that what drifts evenly cancels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

NUM_RESAMPLES: Final = 10_000
CONFIDENCE: Final = 0.95
LEAST_FOR_INTERVAL: Final = 3  # two blocks resample to three values only


@dataclass(frozen=True, slots=True)
class Estimate:
    """The median of a sample, and where it lies with a confidence of 95 %; None where the sample is too small."""

    median: float
    low: float | None
    high: float | None


def estimate_median(sample: Sequence[float], *, seed: int = 0) -> Estimate:
    """The median of `sample` with its bootstrap interval; the same sample gives the same interval."""
    values = np.asarray(sample, np.float64)
    median = float(np.median(values))
    if len(values) < LEAST_FOR_INTERVAL:
        return Estimate(median, None, None)
    resamples = np.random.default_rng(seed).choice(values, (NUM_RESAMPLES, len(values)))
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(np.median(resamples, axis=1), [tail, 1 - tail])
    return Estimate(median, float(low), float(high))
