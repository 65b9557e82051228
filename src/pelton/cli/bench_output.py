"""What every `pelton bench` command does with its rows: JSON lines or a table on stdout, and a dated file if asked.

Invariant: with --save the machine's limits are measured before the first row and after the last.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Iterable
from datetime import date
from pathlib import Path
from types import TracebackType
from typing import Any, final

import click

from pelton.bench.calibrate import Calibration, calibrate_quickly
from pelton.bench.machine import get_commit, get_machine
from pelton.bench.markdown import format_markdown
from pelton.bench.record import Record, Row, round_figures, save_record

Command = Callable[..., Any]


def output_options(function: Command) -> Command:
    """Decorate a click command: adds --markdown and --save, received as `markdown: bool` and `save: Path | None`."""
    save = click.option(
        "--save",
        type=click.Path(path_type=Path),
        help="Write a dated file too: a directory, or a path that ends in .json.",
    )
    markdown = click.option("--markdown", is_flag=True, help="Print a Markdown table at the end, not JSON lines.")
    return markdown(save(function))


@final
class Output:
    """Takes rows; a context in which they are measured."""

    def __init__(self, name: str, *, markdown: bool, save: Path | None, num_threads: int | None = None) -> None:
        self._name = name
        self._markdown = markdown
        self._save = save
        self._num_threads = num_threads
        self._rows: list[Row] = []
        self._before: Calibration | None = None

    def add(self, row: Row) -> None:
        """One more result."""
        self._rows.append(row)
        if not self._markdown:
            click.echo(json.dumps(round_figures(row)))

    def __enter__(self) -> Output:
        if self._save is not None:
            self._before = calibrate_quickly(num_threads=self._num_threads)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is not None:
            return
        if self._markdown:
            click.echo("\n\n".join(map(format_markdown, group_rows(self._rows))))
        if self._save is not None:
            assert self._before is not None, "a file was asked for and nothing was calibrated"
            record = Record(
                name=self._name,
                day=date.today(),
                machine=get_machine(),
                commit=get_commit(),
                command=shlex.join(["pelton", *sys.argv[1:]]),
                calibration_before=self._before,
                calibration_after=calibrate_quickly(num_threads=self._num_threads),
                rows=tuple(self._rows),
            )
            click.echo(f"saved to {save_record(record, self._save)}", err=True)


def group_rows(rows: Iterable[Row]) -> list[list[Row]]:
    """Rows with the same columns together, each a table of its own."""
    tables: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        tables.setdefault(tuple(row), []).append(row)
    return list(tables.values())
