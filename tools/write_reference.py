"""Writes the pages of docs/reference that come from code: `python tools/write_reference.py`. Tests compare them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from pelton import errors
from pelton.config.reference import format_markdown_table, render_configuration

ROOT = Path(__file__).resolve().parent.parent

ERRORS_INTRODUCTION = """\
# Errors

Made by `make docs` from `src/pelton/errors.py`; a test compares the two.

The class of an error decides its HTTP status and its exit code, and nothing else does. Over HTTP an error has the shape
of the OpenAI API: `{"error": {"message": ..., "type": ..., "param": ..., "code": ...}}`, with the type below. On the
command line it is one line, `pelton: error: ...`. A wrong flag or an unknown command is exit code 2, Ctrl-C is 130.
"""


def render_errors() -> str:
    """docs/reference/errors.md."""
    rows = [
        (
            f"{'&nbsp;&nbsp;' * depth}`{error.__name__}`",
            str(error.http_status),
            str(error.exit_code),
            error.error_type,
            (error.__doc__ or "").partition("\n")[0],
        )
        for error, depth in walk(errors.EngineError)
    ]
    table = format_markdown_table(("error", "HTTP", "exit code", "type", "when"), rows)
    return f"{ERRORS_INTRODUCTION}\n{table}"


def walk(error: type[errors.EngineError], depth: int = 0) -> Iterator[tuple[type[errors.EngineError], int]]:
    """The classes of the tree with their depth, parents first, in the order they are written."""
    yield error, depth
    for child in error.__subclasses__():
        if child.__module__ == errors.__name__:
            yield from walk(child, depth + 1)


PAGES = {
    "docs/reference/configuration.md": render_configuration,
    "docs/reference/errors.md": render_errors,
}


def main() -> int:
    """Write every page."""
    for name, render in PAGES.items():
        path = ROOT / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(render(), encoding="utf-8")
        print(name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
