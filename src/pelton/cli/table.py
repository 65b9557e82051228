"""Columns of text for people: as wide as their content, no lines, the last column free."""

from __future__ import annotations

from collections.abc import Sequence


def format_table(rows: Sequence[Sequence[str]], *, indent: int = 0) -> str:
    """Rows of equal length as aligned lines.

    >>> print(format_table([("port", "8000"), ("host", "127.0.0.1")], indent=2))
      port  8000
      host  127.0.0.1
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    return "\n".join(f"{' ' * indent}{line}".rstrip() for line in lines)


def format_value(value: object) -> str:
    """A setting's value as it would be written on the command line.

    >>> format_value(("a", "b")), format_value(None), format_value(True)
    ('a, b', '-', 'on')
    """
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, (tuple, list)):
        return ", ".join(map(str, value)) or "-"
    return "-" if value in (None, "") else str(value)
