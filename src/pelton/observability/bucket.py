"""Borders of histogram buckets, in seconds or tokens. Chosen so that usual dashboards keep working."""

from __future__ import annotations

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


FIRST_TOKEN_S: Final = geometric(0.001, 2500, 1, 2.5, 5)
TOKEN_S: Final = geometric(0.001, 100, 1, 2.5, 5)
REQUEST_S: Final = geometric(0.01, 7500, 1, 2.5, 5)
TOKENS: Final = geometric(1, 1_000_000, 1, 2, 5)
CHOICES: Final = (1, 2, 5, 10, 20)
