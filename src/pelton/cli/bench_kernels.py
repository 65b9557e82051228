"""`pelton bench kernels`: every op by itself, against the limits of the same minute."""

from __future__ import annotations

from pathlib import Path

import click

from pelton.api.progress import ProgressBar
from pelton.bench.kernels.selection import parse_selection
from pelton.bench.kernels.suite import Suite, count_rows, measure_kernels, read_cache_bytes
from pelton.cli.bench_output import Output, output_options
from pelton.config.hardware import probe_hardware


@click.command("kernels")
@click.argument("selection", nargs=-1, metavar="[KEY=VALUE,...]...")
@click.option("--num-threads", type=click.IntRange(min=1), help="Threads.  [default: physical cores]")
@click.option(
    "--seconds", default=0.1, type=click.FloatRange(min=0.001), show_default=True, help="Time for each result."
)
@output_options
def kernels(
    selection: tuple[str, ...], num_threads: int | None, seconds: float, markdown: bool, save: Path | None
) -> None:
    """Time, GB/s, GOP/s and percent of the limit of every op, by itself, one JSON line each.

    Weights of linears, and caches of attention, are read from memory: copies of them are larger together than the last
    cache. Keys: op, scheme, matrix, rows, context, isa (those of this machine), shape (a model whose sizes are taken);
    `all` stands for all values. For example: op=linear,attention scheme=Q4_K rows=1,8,32 isa=all shape=qwen2.5-1.5b
    """
    suite = Suite(
        selection=parse_selection(selection),
        num_threads=num_threads or probe_hardware().num_cores,
        cache_bytes=read_cache_bytes(),
        seconds=seconds,
    )
    with (
        Output("kernels", markdown=markdown, save=save, num_threads=suite.num_threads) as output,
        ProgressBar("kernels", count_rows(suite)) as bar,
    ):
        for row in measure_kernels(suite):
            output.add(row)
            bar.advance()
