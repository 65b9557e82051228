"""`pelton bench host`: what text and bookkeeping cost around the kernels."""

from __future__ import annotations

import argparse
from pathlib import Path

import click

from pelton.api.progress import ProgressBar
from pelton.bench.host_step import RUNNING, WAITING, measure_host_steps
from pelton.bench.host_text import measure_text
from pelton.checkpoint.checkpoint import open_checkpoint
from pelton.checkpoint.hub import resolve_model
from pelton.cli.bench_output import Output, output_options

NUM_TEXT_ROWS = 5


@click.command("host")
@click.argument("model", default="demo")
@click.option("--repeat", default=400, type=click.IntRange(min=1), show_default=True, help="Engine steps of each kind.")
@output_options
def host(model: str, repeat: int, markdown: bool, save: Path | None) -> None:
    """Microseconds of tokenizer, chat template, streaming and engine step, without kernels.

    The text is Python's argparse module; tokenizer and chat template are those of MODEL (demo).
    """
    text = Path(argparse.__file__).read_text(encoding="utf-8")
    with (
        open_checkpoint(resolve_model(model)) as checkpoint,
        Output("host", markdown=markdown, save=save, num_threads=1) as output,
        ProgressBar("host", NUM_TEXT_ROWS + len(RUNNING) * len(WAITING)) as bar,
    ):
        for row in measure_text(checkpoint, text):
            output.add(row)
            bar.advance()
        for row in measure_host_steps(num_steps=repeat):
            output.add(row)
            bar.advance()
