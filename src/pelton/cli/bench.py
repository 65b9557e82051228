"""`pelton bench`: measurements of speed. Results go to stdout as JSON lines, progress to stderr.

Each measurement is a module of its own, `cli/bench_*.py`, with a line in the table.
"""

from __future__ import annotations

from typing import Final

import click

from pelton.cli.lazy_group import Entry, LazyGroup

MEASUREMENTS: Final[dict[str, Entry]] = {
    "compare": Entry("pelton.cli.bench_compare:compare", "Speed of a model beside another engine's, in turns."),
    "calibrate": Entry("pelton.cli.bench_calibrate:measure", "What this machine can do at this moment."),
    "offline": Entry("pelton.cli.bench_offline:offline", "Prefill and decode speed of a model, without HTTP."),
}


@click.group(cls=LazyGroup, entries=MEASUREMENTS)
def bench() -> None:
    """Measure speed."""
