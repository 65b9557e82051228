"""`pelton verify`: whether two checkpoints are the same model, level by level, each of which can fail alone.

It believes neither side, nor whoever made the target: both are opened by the readers that serve models. What the
target's own ledger declares as lost weighs less than what nobody says.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from pelton import __version__
from pelton.checkpoint.checkpoint import open_checkpoint
from pelton.checkpoint.contract import Checkpoint
from pelton.checkpoint.gguf.checkpoint import GgufCheckpoint
from pelton.checkpoint.strict_json import parse_object
from pelton.config.hardware import probe_hardware
from pelton.conversion.copy_container import is_copied
from pelton.errors import CheckpointError
from pelton.verification.files import FileRecord, compare_files, list_files, record_files
from pelton.verification.finding import LEVELS, Finding, Verdict, declare, judge
from pelton.verification.logits import FULL_MOST, MOST, LogitsRecord, compare_logits, estimate_bytes
from pelton.verification.numbers import compare_numbers, list_numbers
from pelton.verification.seal import check_seal
from pelton.verification.second_reader import SecondReading, read_again
from pelton.verification.stored import compare_stored, compare_texts_stored, record_stored
from pelton.verification.tensors import TensorRecord, compare_tensors
from pelton.verification.texts import TextRecord, compare_texts

REPORT_VERSION: Final = 1
EXACT_BUDGET: Final = 1e-6
LOSSY_BUDGET: Final = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """`is_full`: prompts as long as the model's lengths ask. `budget`: nats of mean KL, where weights differ."""

    levels: Collection[str] = LEVELS
    is_full: bool = False
    budget: float = LOSSY_BUDGET


@dataclass(slots=True)
class Report:
    """Everything that was compared and found."""

    source: str
    target: str
    levels: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    files: dict[str, list[FileRecord]] = field(default_factory=dict)
    numbers: list[tuple[str, Any, Any]] = field(default_factory=list)
    tensors: list[TensorRecord] = field(default_factory=list)
    texts: TextRecord | None = None
    logits: LogitsRecord | None = None
    readings: list[SecondReading] = field(default_factory=list)
    verdict: Verdict = "UNVERIFIED"

    def as_json(self) -> dict[str, Any]:
        """The report as plain values, with the version of its form."""
        missing = [level for level in LEVELS if level not in self.levels]
        return {
            "version": REPORT_VERSION,
            "made_by": f"pelton {__version__}",
            "verdict": self.verdict,
            "not_compared": missing,
            **{name: value for name, value in asdict(self).items() if name != "verdict"},
        }


@dataclass(frozen=True, slots=True)
class Progress:
    """Whom to tell: of stages by name and what is to come, and of what is done."""

    on_stage: Callable[[str, int], None] = lambda stage, total: None
    on_step: Callable[[int], None] = lambda count: None


def verify(source: Path, target: Path, options: Options, progress: Progress) -> Report:
    """Compare. Raises CheckpointError only if one of the two cannot be opened."""
    report = Report(str(source), str(target))
    if is_copied(source) and (reason := _find_obstacle(source)) is not None:
        if not is_copied(target):
            raise CheckpointError(f"{target}: is no copy of {source}, which cannot be run, so only a copy is compared.")
        _verify_stored(report, source, target, options, progress)
        report.findings.append(Finding("L4.SKIPPED", f"the model cannot be run here: {reason}", "note"))
        return report
    with open_checkpoint(source) as ours, open_checkpoint(target) as theirs:
        ledger = read_ledger(theirs)
        lost = [loss["field"] for loss in ledger.get("losses", [])]
        if "L0" in options.levels:
            _compare_files(report, ours, theirs, ledger, progress)
        if "L1" in options.levels:
            report.numbers = list_numbers(ours, theirs)
            _add(report, "L1", compare_numbers(ours, theirs))
        if "L2" in options.levels:
            progress.on_stage("comparing tensors", ours.weight_bytes)
            report.tensors, found = compare_tensors(ours, theirs, progress.on_step)
            _add(report, "L2", found)
        if "L3" in options.levels:
            progress.on_stage("comparing texts", 0)
            report.texts, found = compare_texts(ours, theirs, progress.on_step)
            _add(report, "L3", found)
        if "L4" in options.levels:
            _compare_logits(report, ours, theirs, options, progress)
        if "L5" in options.levels:
            _read_again(report, ours, theirs, progress)
    report.findings = declare(report.findings, lost)
    bitwise = bool(report.tensors) and all(record.sameness == "bytes" for record in report.tensors)
    report.verdict = judge(report.findings, report.levels, is_bitwise=bitwise)
    return report


def _find_obstacle(path: Path) -> str | None:
    """Why the model cannot be opened as one that runs, if it cannot."""
    try:
        open_checkpoint(path).close()
    except CheckpointError as error:
        return str(error).split(". ")[0]
    return None


def _verify_stored(report: Report, source: Path, target: Path, options: Options, progress: Progress) -> None:
    """Two directories of a model that cannot be run: a level is done where nothing differs that would need sense."""
    progress.on_stage("hashing files", 0)
    report.files = {
        "source": record_stored(source, progress.on_step),
        "target": record_stored(target, progress.on_step),
    }
    found = compare_texts_stored(report.files["source"], report.files["target"])
    if "L0" in options.levels:
        _add(report, "L0", [])
    for level in ("L1", "L3"):
        if level in options.levels:
            _add(report, level, [finding for finding in found if finding.level == level])
    if "L2" in options.levels:
        progress.on_stage("comparing tensors", 0)
        report.tensors, findings = compare_stored(source, target, progress.on_step)
        _add(report, "L2", findings)
    bitwise = bool(report.tensors) and all(record.sameness == "bytes" for record in report.tensors)
    report.verdict = judge(report.findings, report.levels, is_bitwise=bitwise)


def _add(report: Report, level: str, found: list[Finding]) -> None:
    report.levels.append(level)
    report.findings += found


def _compare_files(
    report: Report, ours: Checkpoint, theirs: Checkpoint, ledger: Mapping[str, Any], progress: Progress
) -> None:
    sizes = sum(path.stat().st_size for side in (ours, theirs) for path in list_files(side))
    progress.on_stage("hashing files", sizes)
    report.files = {"source": record_files(ours, progress.on_step), "target": record_files(theirs, progress.on_step)}
    told = {name: each["sha256"] for name, each in ledger.get("source", {}).get("files", {}).items()}
    found = compare_files(report.files["source"], told)
    _add(report, "L0", [*found, *check_seal(theirs.path, report.files["target"])])


def _read_again(report: Report, ours: Checkpoint, theirs: Checkpoint, progress: Progress) -> None:
    progress.on_stage("reading again with other libraries", 0)
    report.readings, found = read_again(ours, theirs)
    report.findings += found
    if len(report.readings) == 2:
        report.levels.append("L5")


def _compare_logits(report: Report, ours: Checkpoint, theirs: Checkpoint, options: Options, progress: Progress) -> None:
    if any(finding.id.startswith(("L2.MATCH", "L2.PLACES", "L2.READ")) for finding in report.findings):
        report.findings.append(Finding("L4.SKIPPED", "one side cannot be computed", "note"))
        return
    if ours.spec.vocab_size != theirs.spec.vocab_size:
        report.findings.append(Finding("L4.SKIPPED", "the two have different vocabularies", "note"))
        return
    needed, free = estimate_bytes(ours, theirs), probe_hardware().available_memory_bytes
    if 0 < free < needed:
        told = f"both sides in float32 need {needed / 1e9:.1f} GB of memory and {free / 1e9:.1f} GB are free"
        report.findings.append(Finding("L4.MEMORY", told, "note"))
        return
    progress.on_stage("comparing logits", 0)
    same = bool(report.tensors) and all(record.sameness != "different" for record in report.tensors)
    most = FULL_MOST if options.is_full else MOST
    budget = EXACT_BUDGET if same else options.budget
    try:
        report.logits, found = compare_logits(ours, theirs, most=most, budget=budget, on_step=progress.on_step)
    except CheckpointError as error:
        report.findings.append(Finding("L4.SKIPPED", f"one side cannot be computed: {error}", "fails"))
        return
    _add(report, "L4", found)


def read_ledger(checkpoint: Checkpoint) -> dict[str, Any]:
    """What `pelton convert` wrote about the target, or nothing."""
    if isinstance(checkpoint, GgufCheckpoint):
        told = checkpoint.metadata.get("pelton.conversion")
        return parse_object(told.encode(), "pelton.conversion") if isinstance(told, str) else {}
    path = checkpoint.path / "conversion.json"
    return parse_object(path.read_bytes(), str(path)) if path.is_file() else {}


def dump(report: Report) -> str:
    """The report as JSON text."""
    return json.dumps(_finite(report.as_json()), indent=2, ensure_ascii=False, default=str, allow_nan=False) + "\n"


def _finite(value: Any) -> Any:
    """The same value with text for the numbers that JSON has not."""
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    return [_finite(each) for each in value] if isinstance(value, list | tuple) else value
