"""Other people's readers see the same tensors; where they see others, or are not there, that is said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.verification.small_model import make_small

from pelton.checkpoint.checkpoint import open_checkpoint
from pelton.conversion.convert import Options as ConvertOptions
from pelton.conversion.convert import Progress as ConvertProgress
from pelton.conversion.convert import convert
from pelton.verification import second_reader
from pelton.verification.second_reader import read_again

pytestmark = pytest.mark.cpu


def make_pair(root: Path, **options: Any) -> tuple[Path, Path]:
    source = make_small("dense", root / "hf", torch.bfloat16)
    convert(source, root / "m.gguf", "gguf", ConvertOptions(**options), ConvertProgress())
    return source, root / "m.gguf"


def test_both_formats_are_read_again(tmp_path: Path) -> None:
    source, target = make_pair(tmp_path)
    with open_checkpoint(source) as ours, open_checkpoint(target) as theirs:
        readings, findings = read_again(ours, theirs)
        counts = [len(ours.tensors), len(theirs.tensors)]
    assert findings == []
    assert [(each.side, each.library) for each in readings] == [("source", "safetensors"), ("target", "gguf")]
    assert [each.num_tensors for each in readings] == counts
    assert readings[1].num_bytes_compared == counts[1]
    assert readings[1].num_numbers_compared > 20  # BF16 has rows for the package, float32 has not


def test_another_view_of_a_tensor_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = make_pair(tmp_path)
    ask = second_reader._ask

    def answer(python: str, library: str, paths: list[str]) -> Any:
        told = ask(python, library, paths)
        assert isinstance(told, dict)
        if library == "gguf":
            told["blk.0.attn_q.weight"]["shape"].reverse()
            told["blk.1.attn_q.weight"]["sha256"] = "0" * 64
            told["blk.2.attn_q.weight"]["numbers"] = "0" * 64
            told["another"] = told.pop("blk.3.attn_q.weight")
        return told

    monkeypatch.setattr(second_reader, "_ask", answer)
    with open_checkpoint(source) as ours, open_checkpoint(target) as theirs:
        _, findings = read_again(ours, theirs)
    assert {finding.weight for finding in findings} == {"fails"}
    assert {finding.id for finding in findings} == {
        "L5.NAMES:target",
        "L5.TENSOR:blk.0.attn_q.weight",
        "L5.BYTES:blk.1.attn_q.weight",
        "L5.NUMBERS:blk.2.attn_q.weight",
    }


@pytest.mark.parametrize(
    ("program", "told"),
    [
        ("exit 3", "the package safetensors is not installed"),
        ("echo broken >&2; exit 1", "ended with 1 and said: broken"),
        (None, "could not run the package"),
    ],
)
def test_a_reader_that_is_not_there_is_a_note(program: str | None, told: str, tmp_path: Path) -> None:
    source = make_small("dense", tmp_path / "hf")
    python = tmp_path / "python"
    if program is not None:
        python.write_text(f"#!/bin/sh\n{program}\n")
        python.chmod(0o755)
    with open_checkpoint(source) as ours, open_checkpoint(source) as theirs:
        readings, findings = read_again(ours, theirs, str(python))
    assert readings == []
    assert [(each.id, each.weight) for each in findings] == [("L5.ABSENT:source", "note"), ("L5.ABSENT:target", "note")]
    assert told in findings[0].what
