"""An inspection: everything that can be said of a path, as one value that a screen or a program reads.

Reads headers, small documents, the tokenizer and a few norms; tensors are only passed over where that is asked for.
A model that is refused is reported too, as far as any reader got, with the reasons why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pelton.checkpoint.contract import Checkpoint, TensorInfo
from pelton.checkpoint.file_hash import BUFFER_BYTES, compute_sha256
from pelton.checkpoint.hf.generation import find_unfollowed
from pelton.checkpoint.hf.shards import read_weights
from pelton.checkpoint.scheme import READABLE
from pelton.errors import CheckpointError
from pelton.inspection import words
from pelton.inspection.account import Account, check_account_shapes, count_elements, make_account
from pelton.inspection.check_config import check_config, check_head, list_ignored_fields
from pelton.inspection.check_files import Ignored, check_files, split_files
from pelton.inspection.check_generation import check_generation, describe_defaults
from pelton.inspection.check_quantization import check_quantization
from pelton.inspection.check_rows import check_rows
from pelton.inspection.check_samples import check_samples
from pelton.inspection.check_text import TextFacts, read_text_facts
from pelton.inspection.finding import SEVERITIES, Finding
from pelton.inspection.raw_words import describe_quantization, describe_refused
from pelton.inspection.scan import Numbers, check_norms, check_numbers, listed
from pelton.inspection.subject import Subject, open_subject
from pelton.tokenization.chat_template import TemplateWorker

SCHEMA = "pelton-inspect/1"


@dataclass(frozen=True, slots=True)
class SchemeShare:
    """What one scheme takes of a model."""

    scheme: str
    num_tensors: int
    num_elements: int
    nbytes: int


@dataclass(slots=True, kw_only=True)
class Report:
    """`model` holds facts in words, by what they are about. `refusals` say why the model cannot be served."""

    path: str
    format: str
    refusals: list[str]
    model: dict[str, str] = field(default_factory=dict)
    num_parameters: int = 0
    num_active_parameters: int = 0
    nbytes: int = 0
    num_files: int = 0
    schemes: list[SchemeShare] = field(default_factory=list)
    text: TextFacts = field(default_factory=TextFacts)
    generation: str = ""
    ignored: list[Ignored] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    tensors: dict[str, TensorInfo] = field(default_factory=dict)
    numbers: dict[str, Numbers | None] | None = None  # of a pass over all tensors
    hashes: dict[str, str] = field(default_factory=dict)

    def add_numbers(self, numbers: dict[str, Numbers | None]) -> None:
        """Take in what a pass over the tensors found."""
        self.numbers = numbers
        found = check_numbers(numbers, self.tensors)
        exact = {finding.id for finding in found}  # what a glance has seen of it is part of this
        self.findings = [finding for finding in self.findings if finding.id not in exact] + found
        self.sort()

    def sort(self) -> None:
        """The worst findings first."""
        self.findings.sort(key=lambda finding: SEVERITIES.index(finding.kind.severity))

    def as_json(self) -> dict[str, Any]:
        """Plain values; the schema's name tells which fields there are."""
        hidden = ("findings", "special_ids")
        text = {name: value for name, value in asdict(self.text).items() if name not in hidden}
        numbers = self.numbers or {}
        return {
            "schema": SCHEMA,
            "path": self.path,
            "format": self.format,
            "is_refused": bool(self.refusals),
            "refusals": self.refusals,
            "model": self.model,
            "num_parameters": self.num_parameters,
            "num_active_parameters": self.num_active_parameters,
            "num_bytes": self.nbytes,
            "num_files": self.num_files,
            "schemes": [asdict(share) for share in self.schemes],
            **text,
            "generation": self.generation,
            "ignored": [asdict(ignored) for ignored in self.ignored],
            "findings": [
                {
                    "id": finding.id,
                    "severity": finding.kind.severity,
                    "what": finding.kind.title,
                    "seen": finding.sentence,
                    "advice": finding.kind.advice,
                }
                for finding in self.findings
            ],
            "tensors": {
                name: {**asdict(info), **plain_numbers(numbers.get(name))}
                for name, info in (self.tensors.items() if self.numbers is not None else ())
            },
            "sha256": self.hashes,
        }


def plain_numbers(numbers: Numbers | None) -> dict[str, float | int | None]:
    """As JSON has them: it knows no NaN."""
    values = {} if numbers is None else asdict(numbers)
    return {name: None if value != value else value for name, value in values.items()}  # noqa: PLR0124  NaN alone


def make_report(subject: Subject, worker: TemplateWorker) -> Report:
    """Inspect what was opened; `worker` renders its template. Raises nothing that is the model's fault."""
    report = Report(path=str(subject.path), format=subject.format, refusals=subject.refusals)
    report.tensors = dict(subject.tensors)
    report.findings += check_files(subject)
    report.findings += check_config(subject)
    checkpoint = subject.checkpoint
    account = None if checkpoint is None else subject.attempt(lambda: make_account(checkpoint))
    report.text = read_text_facts(subject, worker)
    report.findings += report.text.findings
    generation = None if checkpoint is None else subject.attempt(lambda: checkpoint.generation)
    report.generation = "" if generation is None else describe_defaults(generation)
    report.findings += check_generation(subject, generation)
    stored = _read_stored(subject)
    report.findings += check_quantization(subject, stored, stored)
    report.model = (
        describe_refused(subject.config, subject.metadata)
        if checkpoint is None
        else describe_model(checkpoint) | describe_quantization(subject.config)
    )
    if checkpoint is not None and account is not None:
        _take_account(report, checkpoint, account)
        subject.attempt(lambda: check_account_shapes(account, checkpoint.tensors, checkpoint.spec))
        report.findings += subject.attempt(lambda: check_norms(checkpoint, account)) or []
        _glance(report, subject, checkpoint, account)
    _measure(report, account)
    used, ignored = split_files(subject)
    report.num_files = len(used)
    report.ignored += [*ignored, *list_ignored_fields(subject)]
    unapplied = find_unfollowed(subject.documents.get("generation_config.json", {}))
    if unapplied:
        report.ignored.append(Ignored(listed(list(unapplied), 6), "generation_config.json: not followed"))
    report.sort()
    return report


def _glance(report: Report, subject: Subject, checkpoint: Checkpoint, account: Account) -> None:
    """Some bytes of many matrices, whose checksums, where a format has them, are not compared."""
    heads = subject.attempt(lambda: check_head(checkpoint, account)) or []
    report.refusals += [f"{checkpoint.path}: {found.sentence}" for found in heads if found.id == "config.tied-head"]
    report.findings += heads
    report.findings += subject.attempt(lambda: check_samples(checkpoint, account)) or []
    ends, special = report.text.end_ids, report.text.special_ids
    report.findings += subject.attempt(lambda: check_rows(checkpoint, account, ends, special)) or []


def describe_model(checkpoint: Checkpoint) -> dict[str, str]:
    """The specification in words."""
    spec = checkpoint.spec
    return {
        "architecture": spec.architecture,
        "layers": words.describe_shape(spec),
        "attention": words.describe_heads(spec),
        "context": words.describe_context(spec),
        "positions": words.describe_rope(spec),
        "vocabulary": words.describe_head(spec),
        "norms": f"{'RMS' if spec.norm_style == 'rms' else 'layer'} norm, epsilon {spec.norm_eps:g}",
        "weights": spec.weight_dtype,
    }


def _take_account(report: Report, checkpoint: Checkpoint, account: Account) -> None:
    """Tensors that are dropped, and those that make the model refused."""
    reasons: dict[str, list[str]] = {}
    for name, reason in account.dropped.items():
        reasons.setdefault(reason, []).append(name)
    report.ignored += [
        Ignored(f"{'tensor' if len(n) == 1 else 'tensors'} {listed(n)}", why) for why, n in reasons.items()
    ]
    for names, what in ((account.unknown, "in no place of the model"), (account.missing, "missing")):
        if names:
            verb = "is" if len(names) == 1 else "are"
            report.refusals.append(f"{checkpoint.path}: {listed(names)} {verb} {what}.")
    unusable = [name for name in account.used if report.tensors[name].scheme not in READABLE]
    if unusable:
        schemes = ", ".join(sorted({report.tensors[name].scheme for name in unusable}))
        report.refusals.append(
            f"{checkpoint.path}: {listed(unusable)} {'is' if len(unusable) == 1 else 'are'} stored as {schemes}, which "
            "cannot be computed with."
        )
    stored = {place.layer for place in account.used.values() if place.layer is not None}
    absent = sorted(set(range(checkpoint.spec.num_layers)) - stored)
    if absent:
        seen = f"The configuration has {checkpoint.spec.num_layers} layers, the files {len(stored)}"
        report.findings.append(Finding("weights.layers", f"{seen}; layer {absent[0]} is the first that is missing."))


def _measure(report: Report, account: Account | None) -> None:
    """Counts and bytes, over tensors that are used where that is known."""
    shares: dict[str, list[int]] = {}
    dropped = {} if account is None else account.dropped
    for name, info in report.tensors.items():
        share = shares.setdefault(info.scheme, [0, 0, 0])
        share[0] += 1
        share[1] += count_elements(info)
        share[2] += info.nbytes
        report.nbytes += info.nbytes
        report.num_parameters += 0 if name in dropped else count_elements(info)
    report.schemes = sorted((SchemeShare(name, *share) for name, share in shares.items()), key=lambda s: -s.nbytes)
    report.num_active_parameters = report.num_parameters
    if account is not None:
        report.num_active_parameters -= account.count_idle(report.tensors)


def _read_stored(subject: Subject) -> Mapping[str, TensorInfo]:
    """Tensors as the files have them, where quantized linears are several."""
    if (
        subject.format not in ("safetensors", "pytorch")
        or subject.directory is None
        or "quantization_config" not in subject.config
    ):
        return subject.tensors
    try:
        return {name: placed.info for name, placed in read_weights(subject.path).items()}
    except CheckpointError:
        return subject.tensors


def _pieces(nbytes: int) -> Iterator[int]:
    """The sizes of the buffers in which a file is read."""
    for begin in range(0, nbytes, BUFFER_BYTES):
        yield min(BUFFER_BYTES, nbytes - begin)


def hash_files(subject: Subject, on_file: Callable[[str], None], on_bytes: Callable[[int], None]) -> dict[str, str]:
    """The SHA-256 of every file of the model's directory, or of the one file."""
    hashes = {}
    for name in subject.names:
        on_file(name)
        path = subject.root / name
        try:
            pieces = _pieces(path.stat().st_size)
            hashes[name] = compute_sha256(path, lambda left=pieces: on_bytes(next(left, 0)))  # type: ignore[misc]
        except OSError as error:
            raise CheckpointError(f"{path}: cannot be read: {error.strerror}.") from error
    return hashes


def inspect(path: Path) -> Report:
    """Open, report and close."""
    subject = open_subject(path)
    try:
        with TemplateWorker() as worker:
            return make_report(subject, worker)
    finally:
        subject.close()
