"""The types of --max-tokens and --temperature: what the API would refuse is refused before a model is loaded."""

from __future__ import annotations

import math
from typing import Any, Final

import click


class NumberRange(click.FloatRange):
    """A float within bounds. NaN, which JSON cannot carry and which no comparison finds out of bounds, is outside."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number, or a usage error."""
        number = float(super().convert(value, param, ctx))
        if math.isnan(number):
            self.fail(f"{value} is not in the range {self._describe_range()}.", param, ctx)
        return number


MAX_TOKENS: Final = click.IntRange(min=1)
TEMPERATURE: Final = NumberRange(0, 2)
