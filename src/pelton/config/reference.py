"""Writes docs/reference/configuration.md from the schema, so that the page cannot be wrong."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pelton.config.env import VARIABLES
from pelton.config.features import EXCLUDED_PAIRS
from pelton.config.flags import get_default_text
from pelton.config.knob import Setting
from pelton.config.schema import SECTIONS, SETTINGS

_INTRODUCTION: Final = """\
# Configuration

Made by `make docs` from `src/pelton/config/schema.py`; a test compares the two.

A setting is a flag of `pelton serve` (and of the other commands, as far as it concerns them), a key of the file that
`--config` names, and an argument of `pelton.LLM`. The command line wins over the environment, the environment over the
file, the file over the defaults. A default of *auto* is decided when the model and the machine are known;
`pelton config serve MODEL` prints every value with its reason.

In the file a key may stand under its section or alone, with `-` or `_`:

```yaml
model: demo
max-model-len: 8k
server:
  port: 8001
  allowed_origins: [https://example.org]
```

Tokens and bytes may have a suffix: k, m, g are powers of 1000; K, M, G and KiB, MiB, GiB are powers of 1024.
A setting that is on or off is written `--name` or `--no-name` on the command line, true or false in the file.
"""


def render_configuration() -> str:
    """The whole page, as Markdown."""
    parts = [_INTRODUCTION]
    for section, schema in SECTIONS.items():
        settings = [s for s in SETTINGS.values() if s.section == section]
        settings = [s for s in settings if not (s.knob.is_derived or s.knob.is_hidden)]
        rows = [(_names(s), _default(s), _allowed(s), s.knob.help) for s in settings]
        parts.append(f"## {section}\n\n{schema.__doc__}\n")
        parts.append(format_markdown_table(("setting", "default", "allowed", "meaning"), rows))
    variables = [(f"`{v.name}`", v.help) for v in VARIABLES]
    parts.append("## Environment variables\n\nAn empty variable counts as unset.\n")
    parts.append(format_markdown_table(("variable", "meaning"), variables))
    excluded = [(*(f"`{name}`" for name in sorted(pair)), why) for pair, why in EXCLUDED_PAIRS.items()]
    parts.append("## What excludes what\n\nEvery other combination works.\n")
    parts.append(format_markdown_table(("this", "and this", "why not"), excluded))
    return "\n".join(parts)


def format_markdown_table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table.

    >>> print(format_markdown_table(("a", "b"), [("1", "x/y")]), end="")
    | a | b |
    |---|---|
    | 1 | x/y |
    """
    titles = list(head)
    lines = [_line(titles), f"|{'---|' * len(titles)}", *(_line(row) for row in rows)]
    return "\n".join(lines) + "\n"


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _names(setting: Setting) -> str:
    names = [setting.flag, *(f"--{alias.replace('_', '-')}" for alias in setting.knob.alias)]
    return ", ".join(f"`{name}`" for name in names)


def _default(setting: Setting) -> str:
    return "*auto*" if setting.is_auto else get_default_text(setting)


def _allowed(setting: Setting) -> str:
    about = setting.knob
    if about.choices:
        return ", ".join(map(str, about.choices))
    if setting.type is bool:
        return "on, off"
    if about.minimum is not None and about.maximum is not None:
        unit = f" {about.unit}" if about.unit else ""
        return f"{_number(about.minimum)} to {_number(about.maximum)}{unit}"
    return "texts" if setting.type == tuple[str, ...] else "text"


def _number(value: float) -> str:
    """Powers of two that nobody knows by heart are written as such.

    >>> _number(8000), _number(2**63 - 1)
    ('8000', '2^63 - 1')
    """
    if value >= 2**20:
        whole = int(value)
        for rest in (0, 1):
            if (whole + rest).bit_count() == 1:
                return f"2^{(whole + rest).bit_length() - 1}" + (" - 1" if rest else "")
    return f"{value:g}"
