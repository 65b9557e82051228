"""`pelton models`: the models that have short names, and what of them is in the cache."""

from __future__ import annotations

import json

import click

from pelton.checkpoint.hub import list_models, pull, where
from pelton.cli.table import format_table
from pelton.config.memory_rule import format_bytes
from pelton.errors import CheckpointError


@click.group()
def models() -> None:
    """List, download and find models."""


@models.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_command(as_json: bool) -> None:
    """Models with a short name. Any directory, .gguf file or Hugging Face repo id can be served too."""
    known = [(model, where(model.name)) for model in list_models()]
    if as_json:
        rows = [
            {
                "name": model.name,
                "also": list(model.also),
                "title": model.title,
                "license": model.license,
                "num_bytes": model.num_bytes,
                "path": str(path) if path else None,
            }
            for model, path in known
        ]
        click.echo(json.dumps(rows, indent=2))
        return
    cells = [
        (", ".join((m.name, *m.also)), format_bytes(m.num_bytes), "cached" if path else "-", f"{m.title} ({m.license})")
        for m, path in known
    ]
    click.echo(format_table([("name", "size", "cache", "model"), *cells]))


@models.command("pull")
@click.argument("name")
def pull_command(name: str) -> None:
    """Download NAME into the cache, or go on where a download stopped, and print where it is."""
    click.echo(pull(name))


@models.command("where")
@click.argument("name")
def where_command(name: str) -> None:
    """Print the path of NAME in the cache."""
    path = where(name)
    if path is None:
        raise CheckpointError(f"{name} is not in the cache. Download it with 'pelton models pull {name}'.")
    click.echo(path)


@models.command("verify")
@click.argument("folder", default="auto")
def verify_command(folder: str) -> None:
    """Check the packed weights in FOLDER (by default those of the cache), and the models they were packed from."""
    from pelton.api.explain import check_packed_weights  # noqa: PLC0415  pulls the execution plane in

    verdicts = check_packed_weights(folder)
    if verdicts:
        click.echo(format_table([("packed weights", "of", "verdict"), *verdicts]))
    bad = [file for file, _, verdict in verdicts if verdict != "good"]
    if bad:
        raise CheckpointError(f"{bad[0]}: is not what it should be. Remove it: the model is packed again at its start.")
    click.echo(f"{len(verdicts)} files of packed weights, all good")
