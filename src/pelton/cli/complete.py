"""`pelton complete`: a served model goes on with a text."""

from __future__ import annotations

import sys

import click

from pelton.cli.chat import read_lines, show
from pelton.cli.client_options import ClientOptions, client_options, is_interactive, write
from pelton.errors import ConfigError, EngineError

DEFAULT_MAX_TOKENS = 128


@click.command()
@client_options
@click.option("-q", "--quick", default=None, metavar="TEXT", help="Complete one text and end.")
def complete(options: ClientOptions, quick: str | None) -> None:
    """Complete text with a served model. Over a pipe, all of stdin is one text."""
    if quick is not None:
        go_on(options, quick)
    elif is_interactive():
        for line in read_lines("text> "):
            if line.strip() in ("/quit", "/exit"):
                return
            try:
                go_on(options, line)
            except KeyboardInterrupt:
                write("\n")
            except EngineError as error:  # a person can read it and go on
                click.echo(f"\nerror: {error}", err=True)
    else:
        text = sys.stdin.read()
        if not text:
            raise ConfigError("stdin is empty. Give a text there, or with --quick TEXT.")
        go_on(options, text)


def go_on(options: ClientOptions, text: str) -> None:
    """Show what the model writes after `text`, as it comes."""
    body = {"model": options.model, "prompt": text, "max_tokens": DEFAULT_MAX_TOKENS, **options.fields}
    chunks = options.client.stream("/v1/completions", body)
    for _ in show(chunks, lambda choice: choice.get("text") or ""):
        pass
    write("\n")
