"""L1: the model's numbers, field by field, after every default has been written out."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from pelton.checkpoint.contract import Checkpoint
from pelton.conversion.spec_loss import compare_specs
from pelton.verification.finding import Finding


def compare_numbers(ours: Checkpoint, theirs: Checkpoint) -> list[Finding]:
    """Every field of the specification in which the two are different models."""
    return [
        Finding(
            f"L1.SPEC:{each.field}", f"{each.field} is {each.source} in the source and {each.target} in the target."
        )
        for each in compare_specs(ours.spec, theirs.spec)
    ]


def list_numbers(ours: Checkpoint, theirs: Checkpoint) -> list[tuple[str, Any, Any]]:
    """Every field of both, for the report. Layers are told once for each run of equal ones."""
    a, b = asdict(ours.spec), asdict(theirs.spec)
    rows = [(name, a[name], b[name]) for name in a if name != "layers"]
    for index, (ours_layer, theirs_layer) in enumerate(zip(a["layers"], b["layers"], strict=False)):
        if index == 0 or (ours_layer, theirs_layer) != (a["layers"][index - 1], b["layers"][index - 1]):
            rows.append((f"layers[{index}]...", ours_layer, theirs_layer))
    return rows
