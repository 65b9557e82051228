"""Borders of histogram buckets, in seconds or tokens. Chosen so that usual dashboards keep working."""

from __future__ import annotations

from bisect import bisect_left
from typing import Final


def geometric(first: float, last: float, *steps: float) -> tuple[float, ...]:
    """`first` times each of `steps` and ten times that and so on, up to `last`.

    >>> geometric(1, 100, 1, 2, 5)
    (1, 2, 5, 10, 20, 50, 100)
    """
    borders, scale = [], first
    while scale <= last:
        borders += [round(scale * step, 9) for step in steps if scale * step <= last]
        scale *= 10
    return tuple(int(b) if float(b).is_integer() else b for b in borders)


def count_into(counts: list[int], borders: tuple[float, ...], value: float, times: int = 1) -> None:
    """Count `value` into the first bucket whose border it does not exceed, or the one behind the last border.

    >>> counts = [0, 0, 0]
    >>> count_into(counts, (1, 10), 10)
    >>> count_into(counts, (1, 10), 11, times=2)
    >>> counts
    [0, 1, 2]
    """
    counts[bisect_left(borders, value)] += times


FIRST_TOKEN_S: Final = geometric(0.001, 2500, 1, 2.5, 5)
TOKEN_S: Final = geometric(0.001, 100, 1, 2.5, 5)
REQUEST_S: Final = geometric(0.01, 7500, 1, 2.5, 5)
TOKENS: Final = geometric(1, 1_000_000, 1, 2, 5)
STEP_TOKENS: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
CHOICES: Final = (1, 2, 5, 10, 20)
