"""`pelton config COMMAND MODEL`: the complete configuration that COMMAND would run with, each value with its reason.

Opens the model for its sizes and loads no weights.
"""

from __future__ import annotations

import json
from itertools import groupby

import click

from pelton.cli.options import config_options, get_model
from pelton.cli.table import format_table, format_value
from pelton.config.report import Row, make_json, make_rows
from pelton.config.schema import SECTIONS
from pelton.config.user_config import UserConfig


@click.group()
def config() -> None:
    """Print every setting with its reason."""


@config.command()
@config_options(*SECTIONS)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, as GET /config does.")
def serve(asked: UserConfig, as_json: bool) -> None:
    """What `pelton serve MODEL` would run with. Takes the same flags."""
    get_model(asked)
    from pelton.api.assemble import open_model  # noqa: PLC0415  a wrong flag is told before models are imported

    opened = open_model(asked)
    try:
        if as_json:
            click.echo(json.dumps(make_json(opened.config, asked, opened.decisions), indent=2))
        else:
            click.echo(format_rows(make_rows(opened.config, asked, opened.decisions)))
    finally:
        opened.checkpoint.close()


def format_rows(rows: list[Row]) -> str:
    """A block for each section: setting, value, reason."""
    cells = [(row.section, (row.field, format_value(row.value), _reason(row))) for row in rows]
    widths = [max(len(cell[i]) for _, cell in cells) for i in range(2)]
    blocks = []
    for section, group in groupby(cells, key=lambda cell: cell[0]):
        padded = [(name.ljust(widths[0]), value.ljust(widths[1]), why) for _, (name, value, why) in group]
        blocks.append(f"{section}:\n{format_table(padded, indent=2)}")
    return "\n".join(blocks)


def _reason(row: Row) -> str:
    return {"asked": f"asked: {row.why}", "decided": row.why, "default": "default"}[row.source]
