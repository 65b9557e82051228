"""`pelton eval`: how true the answers are. Results go to stdout as JSON, progress to stderr."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path

import click

from pelton.api.assemble import make_logits_reader, open_model
from pelton.api.progress import ProgressBar
from pelton.bench.fidelity import measure_fidelity
from pelton.checkpoint.contract import Checkpoint
from pelton.cli.options import config_options, get_model
from pelton.config.user_config import UserConfig
from pelton.errors import ConfigError
from pelton.tokenization import make_tokenizer

WINDOW = 512
CHUNK = 64


@click.group()
def evaluate() -> None:
    """Measure how true the answers are."""


@evaluate.command()
@config_options("model", "runner")
@click.option("--positions", default=2000, show_default=True, help="Token positions to compare.")
@click.option("--text", type=click.Path(path_type=Path), help="Text to read. Default: Python's argparse module.")
def fidelity(asked: UserConfig, positions: int, text: Path | None) -> None:
    """Compare MODEL on the chosen backend with the float32 reference: same tokens, and KL in nats."""
    get_model(asked)
    opened = open_model(asked)
    token_ids = read_tokens(opened.checkpoint, text, positions)
    actual = make_logits_reader(opened, opened.config.runner.backend, window=WINDOW, chunk=CHUNK)
    expected = make_logits_reader(opened, "reference", window=WINDOW, chunk=CHUNK)
    done = 0
    with ProgressBar("positions", len(token_ids)) as bar:

        def advance(num_done: int) -> None:
            nonlocal done
            for _ in range(num_done - done):
                bar.advance()
            done = num_done

        result = measure_fidelity(actual, expected, token_ids, window=WINDOW, progress=advance)
    click.echo(
        json.dumps({"model": opened.config.model.model, "backend": opened.config.runner.backend, **asdict(result)})
    )


def read_tokens(checkpoint: Checkpoint, text: Path | None, count: int) -> list[int]:
    """The first `count` token ids of `text`. Raises ConfigError if it is missing or too short."""
    path = text or Path(argparse.__file__)
    try:
        content = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"--text: {path} cannot be read ({error}). Give a UTF-8 text file.") from error
    token_ids = make_tokenizer(checkpoint.tokenizer_source).encode(content)
    if len(token_ids) < count:
        raise ConfigError(
            f"--text: {path} has {len(token_ids)} tokens, --positions asks for {count}. Give a longer one."
        )
    return token_ids[:count]
