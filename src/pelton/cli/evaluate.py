"""`pelton eval`: how true the answers are. Results go to stdout as JSON lines, progress to stderr."""

from __future__ import annotations

import json
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from pelton import __version__
from pelton.api.assemble import Opened, make_logits_reader, open_model
from pelton.api.progress import ProgressBar
from pelton.bench.fidelity import measure_fidelity
from pelton.bench.peer_logits import open_peer_reader
from pelton.bench.sample_text import get_default_texts, read_text
from pelton.cli.options import config_options, get_model
from pelton.config.user_config import UserConfig
from pelton.tokenization import make_tokenizer

CHUNK = 64  # tokens per step
MIN_WINDOW = 16  # room for what begins a text, and some of the text


@click.group()
def evaluate() -> None:
    """Measure how true the answers are."""


@evaluate.command()
@config_options("model", "runner", "cache")
@click.option(
    "--positions", default=4000, type=click.IntRange(min=1), show_default=True, help="Token positions of each text."
)
@click.option(
    "--text",
    "text_files",
    type=click.Path(path_type=Path),
    multiple=True,
    help="Text to read; several may be given. Default: Python source and English from the standard library.",
)
@click.option(
    "--window",
    default=2048,
    type=click.IntRange(min=MIN_WINDOW),
    show_default=True,
    help="Positions read in one context.",
)
@click.option("--peer", help="Compare another engine too: its name in benchmarks/peers, or a path to a script.")
@click.option("--peer-python", default="python3", show_default=True, help="The Python that has that engine.")
@click.option("--peer-model", help="The model in that engine's form. Default: MODEL's file.")
def fidelity(
    asked: UserConfig, positions: int, text_files: tuple[Path, ...], window: int, peer: str | None, **peer_options: Any
) -> None:
    """Compare MODEL with the float32 reference: same tokens, KL in nats, and perplexity."""
    get_model(asked)
    texts = [read_text(file) for file in text_files] or get_default_texts()
    opened = open_model(asked)
    tokenizer = make_tokenizer(opened.checkpoint.tokenizer_source)
    prefix = tokenizer.encode("")
    samples = [(text, text.encode(tokenizer, positions)) for text in texts]
    with ExitStack() as stack:
        backend, kv_dtype = opened.config.runner.backend, opened.config.cache.kv_cache_dtype
        own = make_logits_reader(opened, backend, window=window, chunk=CHUNK, kv_dtype=kv_dtype)
        actual = {"pelton": own}
        told = {"pelton": describe_own(opened)}
        if peer is not None:
            opening = open_peer_reader(opened, peer, window=window, chunk=CHUNK, **peer_options)
            reader, facts = stack.enter_context(opening)
            actual[facts.engine] = reader
            told[facts.engine] = {"engine": facts.engine, "version": facts.version, "precision": facts.precision}
        expected = make_logits_reader(opened, "reference", window=window, chunk=CHUNK)
        with ProgressBar("positions", positions * len(texts)) as bar:
            for text, token_ids in samples:
                found = measure_fidelity(
                    actual, expected, token_ids, window=window, prefix=prefix, on_position=bar.advance
                )
                for name, result in found.items():
                    row = {"model": opened.config.model.model, "text": text.name, **told[name], **asdict(result)}
                    click.echo(json.dumps(row))


def describe_own(opened: Opened) -> dict[str, Any]:
    """Our engine in a row of results: what its numbers depend on."""
    config = opened.config
    return {
        "engine": "pelton",
        "version": __version__,
        "backend": config.runner.backend,
        "wide_activations": config.model.wide_activations,
        "exact": config.model.exact,
        "kv_cache_dtype": config.cache.kv_cache_dtype,
    }
