"""What a comparison found, and what it amounts to.

A finding has a stable id that begins with its level: `L1.SPEC:layers[3].window`. It fails the comparison, is declared
(the target itself says that it was lost), or is only to be known. A verdict never claims more than was looked at.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

Level = Literal["L0", "L1", "L2", "L3", "L4", "L5"]
LEVELS: Final[tuple[Level, ...]] = ("L0", "L1", "L2", "L3", "L4", "L5")
TITLES: Final[dict[str, str]] = {
    "L0": "files",
    "L1": "the model's numbers",
    "L2": "tensors",
    "L3": "texts: tokenizer, templates, ends, defaults",
    "L4": "logits",
    "L5": "a second reader",
}
Weight = Literal["fails", "declared", "note"]
Verdict = Literal["LOSSLESS", "EQUIVALENT", "LOSSY-DECLARED", "FAILED", "UNVERIFIED"]
EXIT_CODES: Final[dict[str, int]] = {
    "LOSSLESS": 0,
    "EQUIVALENT": 0,
    "LOSSY-DECLARED": 3,
    "FAILED": 4,
    "UNVERIFIED": 5,
}


@dataclass(frozen=True, slots=True)
class Finding:
    """`what` is a sentence for people: what differs, on both sides."""

    id: str
    what: str
    weight: Weight = "fails"

    @property
    def level(self) -> str:
        return self.id[:2]


def declare(findings: Sequence[Finding], lost: Collection[str]) -> list[Finding]:
    """Findings whose subject the target declares as lost fail no more. `lost` are the fields of its ledger."""
    return [
        replace(each, weight="declared") if each.weight == "fails" and _is_declared(each, lost) else each
        for each in findings
    ]


def _is_declared(finding: Finding, lost: Collection[str]) -> bool:
    subject = finding.id.partition(":")[2]
    return any(field == subject or field.partition(" ")[2] == subject for field in lost)


def judge(findings: Collection[Finding], done: Collection[str], *, is_bitwise: bool) -> Verdict:
    """The verdict over all that was looked at. `is_bitwise`: every tensor had the same bytes on both sides."""
    weights = {finding.weight for finding in findings}
    if "fails" in weights:
        return "FAILED"
    if "declared" in weights:
        return "LOSSY-DECLARED"
    if not {"L0", "L1", "L2", "L3"} <= set(done):
        return "UNVERIFIED"
    return "LOSSLESS" if is_bitwise else "EQUIVALENT"
