"""`pelton bench offline`: prefill and decode speed of the whole engine, without HTTP."""

from __future__ import annotations

import json
from dataclasses import asdict

import click

from pelton import __version__
from pelton.api.assemble import make_loop, open_model
from pelton.api.progress import ProgressBar
from pelton.bench.offline import Workload, measure_offline
from pelton.cli.options import config_options, get_model
from pelton.config.user_config import UserConfig
from pelton.errors import ConfigError

COUNT = click.IntRange(min=1)


@click.command()
@config_options("model", "cache", "scheduler", "runner")
@click.option("--batch", default="1,8,32", show_default=True, help="Numbers of requests, with commas between.")
@click.option("--prompt", default=128, type=COUNT, show_default=True, help="Prompt tokens of each request.")
@click.option(
    "--output", default=64, type=COUNT, show_default=True, help="Tokens of each request decoded after the first."
)
@click.option("--repeat", default=3, type=COUNT, show_default=True, help="Runs of each kind; the best counts.")
def offline(asked: UserConfig, batch: str, prompt: int, output: int, repeat: int) -> None:
    """Prefill and decode speed of MODEL without HTTP, one JSON line per batch size."""
    get_model(asked)
    batches = parse_batches(batch)
    opened = open_model(asked)
    engine = make_loop(opened.checkpoint, opened.config, lambda _stage, _fraction: None)
    try:
        with ProgressBar("runs", 2 * repeat * len(batches)) as bar:
            for size in batches:
                workload = Workload(batch=size, prompt_tokens=prompt, output_tokens=output)
                vocab_size = opened.checkpoint.spec.vocab_size
                speed = measure_offline(engine, workload, repeat=repeat, vocab_size=vocab_size, on_run=bar.advance)
                row = {"engine": "pelton", "version": __version__, "model": opened.config.model.model, **asdict(speed)}
                click.echo(json.dumps({k: round(v, 1) if isinstance(v, float) else v for k, v in row.items()}))
    finally:
        engine.close()


def parse_batches(text: str) -> list[int]:
    """Positive whole numbers with commas between.

    >>> parse_batches("1,8")
    [1, 8]
    """
    try:
        batches = [int(part) for part in text.split(",")]
    except ValueError:
        batches = []
    if not batches or min(batches) < 1:
        raise ConfigError(f"--batch: {text!r} is not a list of positive numbers like 1,8,32.")
    return batches
