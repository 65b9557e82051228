"""Generation defaults: which apply here, which do not, and which of them change what the likeliest token is."""

from __future__ import annotations

from pelton.checkpoint.contract import GenerationDefaults
from pelton.checkpoint.hf.generation import find_unfollowed
from pelton.inspection.finding import Finding
from pelton.inspection.scan import listed
from pelton.inspection.subject import Subject


def check_generation(subject: Subject, defaults: GenerationDefaults | None) -> list[Finding]:
    """What a user of the defaults should know."""
    findings = []
    penalty = defaults.repetition_penalty if defaults is not None else None
    if penalty not in (None, 1.0):
        findings.append(Finding("generation.argmax", f"repetition_penalty is {penalty:g}."))
    unapplied = find_unfollowed(subject.documents.get("generation_config.json", {}))
    if unapplied:
        shown = [f"{name} ({str(value)[:40]})" for name, value in unapplied.items()]
        findings.append(Finding("generation.not-applied", f"generation_config.json: {listed(shown, 6)}."))
    return findings


def describe_defaults(defaults: GenerationDefaults) -> str:
    """The sampling defaults that the checkpoint gives.

    >>> describe_defaults(GenerationDefaults(temperature=0.7, top_k=20))
    'temperature 0.7, top_k 20'
    """
    names = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty", "max_new_tokens")
    given = [f"{name} {getattr(defaults, name):g}" for name in names if getattr(defaults, name) is not None]
    return ", ".join(given) or "none given"
