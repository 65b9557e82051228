"""`pelton convert`: a model from one format to another, with nothing lost in silence."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from pelton.api.progress import ByteBar
from pelton.cli.table import format_table
from pelton.config.memory_rule import format_bytes

if TYPE_CHECKING:
    from pelton.conversion.write import Format

FORMATS = ("safetensors", "gguf", "pytorch", "onnx")
SHOWN = 20
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
    to: Literal["onnx"] | Format | None,
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
    from pelton.conversion.onnx_convert import convert_to_onnx  # noqa: PLC0415
    from pelton.conversion.workplace import find_left  # noqa: PLC0415

    to = to or ("gguf" if target.suffix == ".gguf" else "safetensors")
    options = Options(
        scheme=None if scheme is None else scheme.upper(),
        strict=strict,
        accepted=frozenset(accepted),
        force=force,
        max_shard_bytes=max_shard_bytes,
    )
    try:
        with ByteBar() as bar:
            progress = Progress(bar.begin, bar.advance)
            if to == "onnx":
                ledger = convert_to_onnx(source, target, options, progress)
            else:
                ledger = convert(source, target, to, options, progress)
    except KeyboardInterrupt:
        if (left := find_left(target)) is not None:
            click.echo(f"pelton: the same command goes on from {left}; remove that to give it up", err=True)
        raise
    if as_json:
        click.echo(json.dumps(ledger, indent=2, ensure_ascii=False))
        return
    size = sum(path.stat().st_size for path in target.rglob("*")) if target.is_dir() else target.stat().st_size
    click.echo(f"{target}: {len(ledger['tensors'])} tensors, {format_bytes(size)}")
    lost = list_lost(ledger["losses"])
    if lost:
        click.echo(format_table([("lost", "what"), *lost[:SHOWN]]))
        if len(lost) > SHOWN:
            click.echo(f"and {len(lost) - SHOWN} more: see --json or the ledger in the target")


def list_lost(losses: Iterable[Mapping[str, str]]) -> list[tuple[str, str]]:
    """One line for each kind of loss: what happens to many tensors or layers alike is told once.

    >>> list_lost([{"field": "tensor a", "what": "x"}, {"field": "tensor b", "what": "x"}])
    [('tensor a and 1 more', 'x')]
    """
    kinds: dict[tuple[str, str], list[str]] = {}
    for loss in losses:
        kind = loss["field"].split(" ")[0].split("[")[0]
        kinds.setdefault((kind, loss["what"]), []).append(loss["field"])
    return [
        (fields[0] if len(fields) == 1 else f"{fields[0]} and {len(fields) - 1} more", what)
        for (_, what), fields in kinds.items()
    ]
