"""`pelton bench startup`: what starting a model costs, in time and memory."""

from __future__ import annotations

from pathlib import Path

import click

from pelton.api.progress import ProgressBar
from pelton.bench.startup import count_runs, measure_startup
from pelton.checkpoint.hub import resolve_model
from pelton.cli.bench_offline import UNUSED
from pelton.cli.bench_output import Output, output_options
from pelton.cli.options import config_options, get_model
from pelton.config.user_config import UserConfig


@click.command("startup")
@config_options("model", "cache", "scheduler", "runner", without=UNUSED)
@click.option(
    "--repeat", default=3, type=click.IntRange(min=1), show_default=True, help="Starts of each kind; medians count."
)
@output_options
def startup(asked: UserConfig, repeat: int, markdown: bool, save: Path | None) -> None:
    """Import, open, load, first token, server ready, and peak memory of MODEL, each in fresh processes."""
    path = resolve_model(get_model(asked))
    settings = {name: asked.get(name) for name in asked if name != "model"}
    with (
        Output("startup", markdown=markdown, save=save) as output,
        ProgressBar("starts", count_runs(repeat)) as bar,
    ):
        for row in measure_startup(path, settings, repeat=repeat, on_run=bar.advance):
            output.add(row)
