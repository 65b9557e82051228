"""`pelton inspect PATH`: what a model is, what of it will be ignored, and what looks suspicious. Runs no model.

Exit code 0 if the model can be read, whatever was found; 1 if it is refused, with the reasons at the end.
"""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pelton.checkpoint.checkpoint import open_checkpoint
from pelton.checkpoint.hub.locate import resolve_model
from pelton.checkpoint.hub.progress import Progress

if TYPE_CHECKING:
    from pelton.inspection.report import Report
    from pelton.inspection.subject import Subject

EXIT_REFUSED = 1


@click.command()
@click.argument("model", metavar="PATH")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--tensors", "with_tensors", is_flag=True, help="Read every tensor, and print a line for each.")
@click.option("--hash", "with_hashes", is_flag=True, help="Print the SHA-256 of every file.")
def inspect(model: str, as_json: bool, with_tensors: bool, with_hashes: bool) -> int:
    """Tell what a model is: PATH is a folder, a weight file, or the name of a model. Nothing of it is executed."""
    from pelton.inspection.report import make_report  # noqa: PLC0415  the weight maps of all models
    from pelton.inspection.screen import format_report, format_tensors  # noqa: PLC0415
    from pelton.inspection.subject import open_subject  # noqa: PLC0415
    from pelton.tokenization.chat_template import TemplateWorker  # noqa: PLC0415

    path = Path(model).expanduser()
    with ExitStack() as stack:
        subject = open_subject(path if path.exists() else resolve_model(model))
        stack.callback(subject.close)
        report = make_report(subject, stack.enter_context(TemplateWorker()))
        if with_tensors:
            read_tensors(subject, report)
        if with_hashes:
            hash_all(subject, report)
    if as_json:
        click.echo(json.dumps(report.as_json(), indent=2, allow_nan=False))
    else:
        click.echo(f"{format_tensors(report)}\n\n{format_report(report)}" if with_tensors else format_report(report))
    return EXIT_REFUSED if report.refusals else 0


def read_tensors(subject: Subject, report: Report) -> None:
    """A pass over every tensor."""
    from pelton.inspection.scan import scan  # noqa: PLC0415

    with Progress("tensors", report.nbytes) as progress:
        if subject.checkpoint is None:
            report.add_numbers(scan(subject.tensors, subject.read, progress.add))
            return
        with open_checkpoint(subject.path) as checkpoint:  # as it is served: with checksums, where there are some
            report.add_numbers(scan(checkpoint.tensors, checkpoint.read, progress.add, report.refusals.append))


def hash_all(subject: Subject, report: Report) -> None:
    """The SHA-256 of each file, with a bar for all of them."""
    from pelton.inspection.report import hash_files  # noqa: PLC0415

    sizes = [(subject.root / name).stat().st_size for name in subject.names]
    with Progress("SHA-256", sum(sizes)) as progress:
        report.hashes = hash_files(subject, progress.say, progress.add)
