"""`pelton bench`: measurements of speed. Results go to stdout as JSON lines, progress to stderr.

Each measurement is a module of its own, `cli/bench_*.py`, with a line in the table.
"""

from __future__ import annotations

from typing import Final

import click

from pelton.cli.lazy_group import Entry, LazyGroup

MEASUREMENTS: Final[dict[str, Entry]] = {
    "calibrate": Entry("pelton.cli.bench_calibrate:measure", "What this machine can do at this moment."),
    "kernels": Entry("pelton.cli.bench_kernels:kernels", "Every op by itself, against the machine's limits."),
    "offline": Entry("pelton.cli.bench_offline:offline", "Prefill and decode speed of a model, without HTTP."),
    "compare": Entry("pelton.cli.bench_compare:compare", "Speed of a model beside another engine's, in turns."),
    "host": Entry("pelton.cli.bench_host:host", "What text and bookkeeping cost around the kernels."),
    "startup": Entry("pelton.cli.bench_startup:startup", "What starting a model costs, in time and memory."),
    "serve": Entry("pelton.cli.bench_serve:load", "Latency and speed of a server under concurrent streams."),
    "agents": Entry("pelton.cli.bench_agents:agents", "What the prefix cache gives agents that begin alike."),
    "simulate": Entry("pelton.cli.bench_simulate:simulate", "Days of traffic through the scheduler, in minutes."),
}


@click.group(cls=LazyGroup, entries=MEASUREMENTS)
def bench() -> None:
    """Measure speed."""
