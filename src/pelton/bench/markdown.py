"""Rows of a measurement as a Markdown table, for people and for documents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def format_markdown(rows: Sequence[dict[str, Any]]) -> str:
    """A table with one line per row. What is the same in all rows and no measured figure stands once, above it.

    >>> print(format_markdown([{"a": 1, "b": 0.5, "c": "x"}, {"a": 2, "b": None, "c": "x"}]))
    c: x
    <BLANKLINE>
    | a | b |
    |---|---|
    | 1 | 0.5 |
    | 2 |  |
    """
    names = list(dict.fromkeys(name for row in rows for name in row))
    is_figure = {name: any(isinstance(row.get(name), float) for row in rows) for name in names}
    same = [name for name in names if not is_figure[name] and len({repr(row.get(name)) for row in rows}) == 1]
    columns = [name for name in names if len(rows) == 1 or name not in same] or names
    said = [f"{name}: {format_cell(rows[0][name])}" for name in same if name not in columns]
    head = [", ".join(said), ""] if said else []
    lines = [columns, ["---"] * len(columns), *([format_cell(row.get(name)) for name in columns] for row in rows)]
    table = ["|" + "|".join(line) + "|" if line[0] == "---" else f"| {' | '.join(line)} |" for line in lines]
    return "\n".join([*head, *table])


def format_cell(value: Any) -> str:
    """A figure with three digits or so, anything else as it is.

    >>> [format_cell(value) for value in (0.00123456, 12.3456, 123456.7, True, None, "x|y")]
    ['0.00123', '12.3', '123457', 'yes', '', 'x/y']
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return str(value).replace("|", "/")
