"""`pelton bench compare`: our speed beside another engine's, on the same work and in the same minutes."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path

import click

from pelton.api.assemble import Opened, open_model
from pelton.api.progress import ProgressBar
from pelton.bench.calibrate import Calibration, calibrate_quickly
from pelton.bench.comparison import SIDES, Block, Comparison, Work
from pelton.bench.comparison_record import ComparisonRecord, format_drops, save_comparison
from pelton.bench.cpu_time import read_cpu_time
from pelton.bench.machine import get_commit, get_machine
from pelton.bench.markdown import format_markdown
from pelton.bench.peer_process import PeerProcess, find_peer_script
from pelton.bench.record import Record
from pelton.bench.verdict import judge
from pelton.cli.bench_output import output_options
from pelton.cli.number_list import parse_counts
from pelton.cli.options import config_options, get_model
from pelton.config.user_config import UserConfig

COUNT = click.IntRange(min=1)
FIRST_ID, LAST_ID = 1000, 20000  # ids of ordinary words in most vocabularies


@click.command()
@config_options("model", "cache", "scheduler", "runner")
@click.option("--peer", required=True, help="The other engine: a name in benchmarks/peers, or a path to a script.")
@click.option("--peer-python", default="python3", show_default=True, help="The Python that has that engine.")
@click.option("--peer-model", help="The model in that engine's form.  [default: MODEL's file]")
@click.option("--batch", default="1,8,32", show_default=True, help="Numbers of requests, with commas between.")
@click.option("--prompt", default=128, type=COUNT, show_default=True, help="Prompt tokens of each request.")
@click.option("--output", default=64, type=COUNT, show_default=True, help="Tokens decoded after the first.")
@click.option("--depth", default=0, type=click.IntRange(min=0), show_default=True, help="Tokens before the prompt.")
@click.option("--blocks", default=14, type=COUNT, show_default=True, help="Turns of each engine for each batch size.")
@output_options
def compare(
    asked: UserConfig,
    *,
    peer: str,
    peer_python: str,
    peer_model: str | None,
    batch: str,
    blocks: int,
    markdown: bool,
    save: Path | None,
    **sizes: int,
) -> None:
    """Time MODEL and a peer in turns, ours, theirs, theirs, ours: how many times faster we are, with an interval.

    The machine is calibrated between all turns; blocks in which it changed its state are dropped and counted.
    """
    get_model(asked)
    script, batches = find_peer_script(peer), parse_counts("--batch", batch)
    opened = open_model(asked)
    works = make_works(batches, opened.checkpoint.spec.vocab_size, **sizes)
    threads = opened.config.runner.num_threads
    their_command = [peer_python, str(script), peer_model or str(opened.checkpoint.path), "--threads", str(threads)]
    calibrate = make_calibrate(opened)
    before = calibrate() if save is not None else None
    with PeerProcess(peer, their_command) as theirs:
        their_facts = theirs.wait_until_ready()
        theirs.freeze()
        with PeerProcess("pelton", make_own_command(asked)) as ours:
            our_facts = ours.wait_until_ready()
            ours.freeze()
            with ProgressBar("legs", len(works) * (2 + blocks * len(SIDES))) as bar:
                comparison = Comparison(
                    ours, theirs, calibrate=calibrate, read_cpu_time=read_cpu_time, on_leg=bar.advance
                )
                done = run_blocks(comparison, works, blocks)
    found = ComparisonRecord(ours=our_facts, theirs=their_facts, blocks=done, verdicts=judge(done))
    click.echo(format_markdown(found.rows) if markdown else "\n".join(map(json.dumps, found.rows)))
    for line in format_drops(done):
        click.echo(f"dropped{line.removeprefix('-')}", err=True)
    if save is not None:
        assert before is not None, "calibrated before, because a file was asked for"
        click.echo(f"saved to {save_comparison(make_record(found, before, calibrate()), found, save)}", err=True)


def make_works(batches: Sequence[int], vocab_size: int, *, prompt: int, output: int, depth: int) -> list[Work]:
    """The works, one per batch size, with ids that the vocabulary has."""
    first_id, last_id = min(FIRST_ID, vocab_size // 2), min(LAST_ID, vocab_size - 1)
    return [
        Work(batch=batch, prompt=prompt, output=output, depth=depth, first_id=first_id, last_id=last_id)
        for batch in batches
    ]


def run_blocks(comparison: Comparison, works: Sequence[Work], num_blocks: int) -> list[Block]:
    """All blocks; works take turns, so that a change of the machine meets all of them."""
    for work in works:
        comparison.warm_up(work)
    return [comparison.run_block(work, number) for number in range(num_blocks) for work in works]


def make_own_command(asked: UserConfig) -> list[str]:
    """The command of our engine as a peer, with the settings that were asked for."""
    return [sys.executable, "-m", "pelton.bench.leg", json.dumps({name: asked.get(name) for name in asked})]


def make_calibrate(opened: Opened) -> Callable[[], Calibration]:
    """A quick calibration with as many threads as the engines use."""
    return lambda: calibrate_quickly(num_threads=opened.config.runner.num_threads)


def make_record(found: ComparisonRecord, before: Calibration, after: Calibration) -> Record:
    """The run for the file."""
    return Record(
        name=f"compare-{found.theirs.engine}",
        day=date.today(),
        machine=get_machine(),
        commit=get_commit(),
        command=shlex.join(["pelton", *sys.argv[1:]]),
        calibration_before=before,
        calibration_after=after,
        rows=tuple(found.rows),
    )
