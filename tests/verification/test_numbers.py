"""Every number is listed, and every one that differs is a finding."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.models.architectures import make_model

from pelton.checkpoint.checkpoint import open_checkpoint
from pelton.verification.numbers import compare_numbers, list_numbers

pytestmark = pytest.mark.cpu


def test_fields_are_listed_and_compared(tmp_path: Path) -> None:
    for name in ("one", "two"):
        make_model("gemma3", tmp_path / name)
    path = tmp_path / "two" / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "rms_norm_eps": 1e-2, "sliding_window": 8}))
    with open_checkpoint(tmp_path / "one") as one, open_checkpoint(tmp_path / "two") as two:
        found = {finding.id for finding in compare_numbers(one, two)}
        assert found == {"L1.SPEC:norm_eps", "L1.SPEC:layers[0].window", "L1.SPEC:layers[2].window"}
        rows = {name: (a, b) for name, a, b in list_numbers(one, two)}
        assert rows["norm_eps"] == (3e-3, 1e-2)
        assert {"layers[0]...", "layers[1]...", "layers[3]..."} <= rows.keys()
