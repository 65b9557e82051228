"""A comparison as three files of one dated name: all its figures as JSON, its verdicts as a table and as a plot."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pelton.bench.comparison import Block
from pelton.bench.markdown import format_markdown
from pelton.bench.peer_process import PeerFacts
from pelton.bench.ratio_plot import draw_ratios
from pelton.bench.record import Record, Row, find_free_path, make_stem, round_figures
from pelton.bench.verdict import Verdict
from pelton.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonRecord:
    """What was found, between which engines."""

    ours: PeerFacts
    theirs: PeerFacts
    blocks: Sequence[Block]
    verdicts: Sequence[Verdict]

    @property
    def title(self) -> str:
        """Who against whom, and which side of 1 is good."""
        return f"{describe(self.ours)} / {describe(self.theirs)}: ratio of speeds, above 1 we are faster"

    @property
    def rows(self) -> list[Row]:
        """One row per metric, rounded."""
        engines = {"ours": describe(self.ours), "theirs": describe(self.theirs)}
        return [round_figures({**engines, **verdict.to_row()}) for verdict in self.verdicts]


def describe(facts: PeerFacts) -> str:
    """An engine and what it ran.

    >>> describe(PeerFacts(engine="a", version="1.2", model="m.gguf", precision="int4", load_s=1.0))
    'a 1.2 (m.gguf, int4)'
    """
    what = ", ".join(part for part in (Path(facts.model).name, facts.precision) if part)
    return f"{facts.engine} {facts.version} ({what})"


def format_drops(blocks: Sequence[Block]) -> list[str]:
    """A line for each block that does not count, with the reason."""
    return [
        f"- block {number} at batch {block.work.batch}: {block.dropped}"
        for number, block in enumerate(blocks)
        if block.dropped is not None
    ]


def format_page(record: Record, comparison: ComparisonRecord) -> str:
    """The table with what a reader needs to judge it."""
    machine = record.machine
    work = comparison.blocks[0].work
    lines = [
        f"# {describe(comparison.ours)} against {describe(comparison.theirs)}",
        "",
        f"{record.day.isoformat()}, {machine.cpu_name}, {machine.num_cores} cores, commit {record.commit}",
        "",
        f"    {record.command}",
        "",
        f"Each request: {work.depth + work.prompt} prompt tokens, {work.output} decoded after the first. Blocks of "
        "two legs, in turns ours first and theirs first; the ratio is the median over blocks, with a 95 % bootstrap "
        "interval.",
        "",
        format_markdown(comparison.rows),
        "",
    ]
    drops = format_drops(comparison.blocks)
    return "\n".join([*lines, *(["Dropped:", "", *drops, ""] if drops else [])])


def save_comparison(record: Record, comparison: ComparisonRecord, folder: Path) -> Path:
    """Write the three files into `folder`; the path of the JSON file."""
    path = find_free_path(folder, make_stem(record))
    details: dict[str, Any] = {
        **record.to_json(),
        "ours": asdict(comparison.ours),
        "theirs": asdict(comparison.theirs),
        "blocks": [round_figures(block.to_json()) for block in comparison.blocks],
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(details, indent=1) + "\n", encoding="utf-8")
        path.with_suffix(".md").write_text(format_page(record, comparison), encoding="utf-8")
        path.with_suffix(".svg").write_text(draw_ratios(comparison.title, comparison.verdicts), encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"--save: {path} cannot be written ({error.strerror}). Give a directory.") from error
    return path
