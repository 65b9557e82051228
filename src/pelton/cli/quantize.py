"""`pelton quantize`: weights in fewer bits, and what that costs."""

from __future__ import annotations

import json
from pathlib import Path

import click

from pelton.api.progress import ByteBar
from pelton.cli.table import format_table
from pelton.config.memory_rule import format_bytes

SCHEMES = ("q8_0", "q6_k", "q4_k", "q4_0")


@click.command("quantize")
@click.argument("source", type=click.Path(path_type=Path))
@click.argument("target", type=click.Path(path_type=Path))
@click.option("--bits", "scheme", type=click.Choice(SCHEMES), default="q4_k", show_default=True, help="Blocks to make.")
@click.option("--force", is_flag=True, help="Replace TARGET if it is there.")
@click.option("--json", "as_json", is_flag=True, help="Print what it costs as JSON.")
def quantize_command(source: Path, target: Path, *, scheme: str, force: bool, as_json: bool) -> None:
    """Write the dense model at SOURCE as a GGUF at TARGET with weights in fewer bits, and measure what that costs.

    The cost is measured against SOURCE: how far the weights and the distributions are apart, and the worst tensors.
    """
    from pelton.conversion.convert import Options, Progress, convert  # noqa: PLC0415  pulls the execution plane in
    from pelton.verification.verify import Options as VerifyOptions  # noqa: PLC0415
    from pelton.verification.verify import Progress as VerifyProgress  # noqa: PLC0415
    from pelton.verification.verify import verify  # noqa: PLC0415

    with ByteBar() as bar:
        convert(source, target, "gguf", Options(scheme=scheme.upper(), force=force), Progress(bar.begin, bar.advance))
        levels = ("L1", "L2", "L4")
        report = verify(
            source, target, VerifyOptions(levels=levels, budget=float("inf")), VerifyProgress(bar.begin, bar.advance)
        )
    worst = sorted(report.tensors, key=lambda each: -each.relative_rms)[:5]
    kls = [kl for each in (report.logits.prompts.values() if report.logits else ()) for kl in each]
    told = {
        "target": str(target),
        "bytes": target.stat().st_size,
        "mean_kl": sum(kls) / len(kls) if kls else None,
        "max_kl": max(kls, default=None),
        "same_token": None if report.logits is None else report.logits.same_token,
        "worst": [
            {"tensor": each.name, "scheme": each.schemes[1], "relative_rms": each.relative_rms} for each in worst
        ],
    }
    if as_json:
        click.echo(json.dumps(told, indent=2))
        return
    click.echo(f"{target}: {format_bytes(target.stat().st_size)}")
    if report.logits is not None:
        click.echo(
            f"{told['mean_kl']:.3g} nats from the source on average over {len(kls)} positions, {told['max_kl']:.3g} at "
            f"most; the same first choice at {100 * report.logits.same_token:.1f} %"
        )
    rows = [(each.name, each.schemes[1], f"{each.relative_rms:.2%}") for each in worst]
    click.echo(format_table([("worst", "scheme", "error"), *rows]))
