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
from pelton.cli.options import config_options, get_model
from pelton.config.user_config import UserConfig
from pelton.errors import ConfigError
from pelton.tokenization import Tokenizer, make_tokenizer

CHUNK = 64  # tokens per step
MIN_WINDOW = 16  # room for what begins a text, and some of the text


@click.group()
def evaluate() -> None:
    """Measure how true the answers are."""


@evaluate.command()
@config_options("model", "runner")
@click.option(
    "--positions", default=2000, type=click.IntRange(min=1), show_default=True, help="Token positions to compare."
)
@click.option("--text", type=click.Path(path_type=Path), help="Text to read. Default: Python's argparse module.")
@click.option(
    "--window",
    default=2048,
    type=click.IntRange(min=MIN_WINDOW),
    show_default=True,
    help="Positions read in one context.",
)
def fidelity(asked: UserConfig, positions: int, text: Path | None, window: int) -> None:
    """Compare MODEL on the chosen backend with the float32 reference: same tokens, and KL in nats."""
    get_model(asked)
    opened = open_model(asked)
    tokenizer = make_tokenizer(opened.checkpoint.tokenizer_source)
    prefix = tokenizer.encode("")
    token_ids = read_tokens(tokenizer, text, positions)
    actual = make_logits_reader(opened, opened.config.runner.backend, window=window, chunk=CHUNK)
    expected = make_logits_reader(opened, "reference", window=window, chunk=CHUNK)
    done = 0
    with ProgressBar("positions", positions) as bar:

        def advance(num_done: int) -> None:
            nonlocal done
            for _ in range(num_done - done):
                bar.advance()
            done = num_done

        result = measure_fidelity(actual, expected, token_ids, window=window, prefix=prefix, progress=advance)
    click.echo(
        json.dumps({"model": opened.config.model.model, "backend": opened.config.runner.backend, **asdict(result)})
    )


def read_tokens(tokenizer: Tokenizer, text: Path | None, count: int) -> list[int]:
    """The first `count` token ids of `text`. Raises ConfigError if it is missing or too short."""
    path = text or Path(argparse.__file__)
    try:
        content = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(f"--text: {path} cannot be read ({why}). Give a UTF-8 text file.") from error
    token_ids = tokenizer.encode(content, add_special_tokens=False)
    if len(token_ids) < count:
        raise ConfigError(
            f"--text: {path} has {len(token_ids)} tokens, --positions asks for {count}. Give a longer one."
        )
    return token_ids[:count]
