"""`pelton bench calibrate`: what this machine can do at this moment."""

from __future__ import annotations

from pathlib import Path

import click

from pelton.bench.calibrate import FULL_SECONDS, calibrate
from pelton.bench.calibration_table import make_rows
from pelton.cli.bench_output import Output, output_options


@click.command("calibrate")
@click.option(
    "--seconds",
    default=FULL_SECONDS,
    type=click.FloatRange(min=0.01, max=600),
    show_default=True,
    help="How long it may take; short runs are less sure to find the machine undisturbed.",
)
@click.option("--num-threads", type=click.IntRange(min=1), help="Threads of 'all threads'.  [default: physical cores]")
@output_options
def measure(seconds: float, num_threads: int | None, markdown: bool, save: Path | None) -> None:
    """Clock, arithmetic peaks, read bandwidth and barrier of this machine: the limits of everything else."""
    with Output("calibrate", markdown=markdown, save=save, num_threads=num_threads) as output:
        found = calibrate(seconds, num_threads=num_threads)
        for row in make_rows(found) if markdown else [found.to_json()]:
            output.add(row)
