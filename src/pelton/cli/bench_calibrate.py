"""`pelton bench calibrate`: what this machine can do at this moment."""

from __future__ import annotations

from pathlib import Path

import click

from pelton.bench.calibrate import FULL_BYTES, FULL_SECONDS, QUICK_BYTES, calibrate, calibrate_quickly
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
@click.option(
    "--read-mib",
    default=FULL_BYTES >> 20,
    type=click.IntRange(min=1),
    show_default=True,
    help="Memory to read, in MiB; less is used where less is free, and never less than 64.",
)
@click.option("--quick", is_flag=True, help="Peaks, bandwidth and barrier of all threads only, in about 0.3 s.")
@output_options
def measure(
    seconds: float, num_threads: int | None, read_mib: int, quick: bool, markdown: bool, save: Path | None
) -> None:
    """Clock, arithmetic peaks, read bandwidth and barrier of this machine: the limits of everything else."""
    with Output("calibrate", markdown=markdown, save=save, num_threads=num_threads) as output:
        read_bytes = read_mib << 20
        if quick:
            found = calibrate_quickly(num_threads=num_threads, read_bytes=min(read_bytes, QUICK_BYTES))
        else:
            found = calibrate(seconds, num_threads=num_threads, read_bytes=read_bytes)
        if markdown:
            for row in make_rows(found):
                output.add(row)
        else:
            output.add(found.to_json())
