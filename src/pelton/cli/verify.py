"""`pelton verify`: whether two models are the same, with a report and an exit code."""

from __future__ import annotations

from pathlib import Path

import click

from pelton.api.progress import ByteBar
from pelton.cli.table import format_table
from pelton.errors import CheckpointError


@click.command("verify")
@click.argument("source", type=click.Path(path_type=Path))
@click.argument("target", type=click.Path(path_type=Path))
@click.option("--levels", default="L0,L1,L2,L3,L4,L5", show_default=True, help="What to compare, with commas between.")
@click.option("--full", is_flag=True, help="Read prompts as long as the model's window and original context ask for.")
@click.option(
    "--budget", type=click.FloatRange(0), default=0.05, show_default=True, help="Nats of mean KL if weights differ."
)
@click.option("--report", type=click.Path(path_type=Path), help="Write the report: a name that ends in .html or .json.")
@click.option("--seal", is_flag=True, help="Leave the verdict and the hashes beside TARGET, as verification.json.")
@click.pass_context
def verify_command(
    context: click.Context,
    source: Path,
    target: Path,
    *,
    levels: str,
    full: bool,
    budget: float,
    report: Path | None,
    seal: bool,
) -> None:
    """Compare the models at SOURCE and TARGET, of any formats, made by anybody.

    L0 hashes files, L1 compares the model's numbers, L2 tensors, L3 texts, L4 logits, L5 asks other libraries what is
    in the files. Exit codes: 0 the same bits or the same numbers, 3 what differs was declared, 4 not the same model,
    5 not all was compared.
    """
    from pelton.verification.finding import EXIT_CODES, LEVELS  # noqa: PLC0415  pulls the execution plane in
    from pelton.verification.page import make_page  # noqa: PLC0415
    from pelton.verification.seal import write_seal  # noqa: PLC0415
    from pelton.verification.verify import Options, Progress, dump, verify  # noqa: PLC0415

    chosen = [level.strip() for level in levels.split(",")]
    unknown = [level for level in chosen if level not in LEVELS]
    if unknown:
        raise click.UsageError(f"--levels: {unknown[0]!r} is not one of {', '.join(LEVELS)}.")
    if report is not None and report.suffix not in (".html", ".json"):
        raise click.UsageError(f"--report: {report} ends neither in .html nor in .json.")
    with ByteBar() as bar:
        found = verify(
            source, target, Options(levels=chosen, is_full=full, budget=budget), Progress(bar.begin, bar.advance)
        )
    text = dump(found)
    if report is not None:
        try:
            report.write_text(make_page(found) if report.suffix == ".html" else text, encoding="utf-8")
        except OSError as error:
            raise CheckpointError(f"{report}: cannot be written: {error.strerror}.") from error
    if seal:
        click.echo(f"pelton: wrote {write_seal(target, found.as_json(), text)}", err=True)
    missing = [level for level in LEVELS if level not in found.levels]
    click.echo(f"{found.verdict} (not compared: {', '.join(missing)})" if missing else found.verdict)
    rows = [(each.weight, each.id, each.what) for each in found.findings]
    if rows:
        click.echo(format_table([("", "finding", "what"), *rows[:30]]))
    if len(rows) > 30:
        click.echo(f"and {len(rows) - 30} more: see --report")
    context.exit(EXIT_CODES[found.verdict])
