"""Options that take several counts, like 1,8,32."""

from __future__ import annotations

from pelton.errors import ConfigError


def parse_counts(flag: str, text: str) -> list[int]:
    """Positive whole numbers with commas between. Raises ConfigError, naming `flag`, for anything else.

    >>> parse_counts("--batch", "1,8")
    [1, 8]
    """
    try:
        counts = [int(part) for part in text.split(",")]
    except ValueError:
        counts = []
    if not counts or min(counts) < 1:
        raise ConfigError(f"{flag}: {text!r} is not a list of positive numbers like 1,8,32.")
    return counts
