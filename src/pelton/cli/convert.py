"""`pelton convert`: a model from one format to another, with nothing lost in silence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pelton.api.progress import ByteBar
from pelton.cli.table import format_table
from pelton.config.memory_rule import format_bytes

if TYPE_CHECKING:
    from pelton.conversion.convert import Format

FORMATS = ("safetensors", "gguf", "pytorch")
SCHEMES = ("f32", "f16", "bf16")


@click.command("convert")
@click.argument("source", type=click.Path(path_type=Path))
@click.argument("target", type=click.Path(path_type=Path))
@click.option("--to", "to", type=click.Choice(FORMATS), help="Format of TARGET.  [default: gguf if it ends so]")
@click.option("--scheme", type=click.Choice(SCHEMES), help="Round dense weights to this type.  [default: keep numbers]")
@click.option("--accept-loss", "accepted", multiple=True, metavar="FIELD", help="Bear the loss of FIELD, or of 'all'.")
@click.option("--strict", is_flag=True, help="Refuse every loss, also of what no reader of TARGET would look at.")
@click.option("--force", is_flag=True, help="Replace TARGET if it is there.")
@click.option(
    "--max-shard-bytes",
    type=click.IntRange(1 << 20),
    default=5 * 10**9,
    show_default=True,
    help="Largest file of weights in a directory.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the ledger of the conversion.")
def convert_command(
    source: Path,
    target: Path,
    *,
    to: Format | None,
    scheme: str | None,
    accepted: tuple[str, ...],
    strict: bool,
    force: bool,
    max_shard_bytes: int,
    as_json: bool,
) -> None:
    """Write the model at SOURCE to TARGET in another format.

    TARGET is read back and compared before it gets its name. What it cannot say is carried under keys of our own,
    listed as lost, or refused: nothing is dropped without a word.
    """
    from pelton.conversion.convert import Options, Progress, convert  # noqa: PLC0415  pulls the execution plane in

    to = to or ("gguf" if target.suffix == ".gguf" else "safetensors")
    options = Options(
        scheme=None if scheme is None else scheme.upper(),
        strict=strict,
        accepted=frozenset(accepted),
        force=force,
        max_shard_bytes=max_shard_bytes,
    )
    with ByteBar() as bar:
        ledger = convert(source, target, to, options, Progress(bar.begin, bar.advance))
    if as_json:
        click.echo(json.dumps(ledger, indent=2, ensure_ascii=False))
        return
    size = sum(path.stat().st_size for path in target.rglob("*")) if target.is_dir() else target.stat().st_size
    click.echo(f"{target}: {len(ledger['tensors'])} tensors, {format_bytes(size)}")
    lost = [("lost", "what"), *((loss["field"], loss["what"]) for loss in ledger["losses"])]
    if len(lost) > 1:
        click.echo(format_table(lost[:21]))
        if len(lost) > 21:
            click.echo(f"and {len(lost) - 21} more: see --json or the ledger in the target")
