"""Pairs of formats end in the verdict that they deserve, and a report says what was not compared."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from tests.verification.small_model import make_small

from pelton.conversion.convert import Options as ConvertOptions
from pelton.conversion.convert import Progress as ConvertProgress
from pelton.conversion.convert import convert
from pelton.errors import CheckpointError
from pelton.verification.page import make_page
from pelton.verification.verify import Options, Progress, dump, read_ledger, verify

pytestmark = pytest.mark.cpu


def run(source: Path, target: Path, to: str, **options: object) -> None:
    convert(source, target, to, ConvertOptions(**options), ConvertProgress())  # type: ignore[arg-type]


def test_a_gguf_of_a_directory_is_equivalent_and_the_way_back_is_lossless(tmp_path: Path) -> None:
    make_small("windowed", tmp_path / "hf", torch.bfloat16)
    run(tmp_path / "hf", tmp_path / "m.gguf", "gguf")
    run(tmp_path / "m.gguf", tmp_path / "back", "safetensors")
    there = verify(tmp_path / "hf", tmp_path / "m.gguf", Options(is_full=True), Progress())
    assert [finding for finding in there.findings if finding.weight != "note"] == []
    assert there.verdict in ("LOSSLESS", "EQUIVALENT")
    assert there.logits is not None
    assert {"short", "beyond the window"} <= set(there.logits.prompts)
    assert there.logits.worst < 1e-9
    back = verify(tmp_path / "hf", tmp_path / "back", Options(), Progress())
    assert back.verdict == "LOSSLESS"


def test_rounding_is_declared_if_the_target_says_so(tmp_path: Path) -> None:
    make_small("dense", tmp_path / "hf")
    run(tmp_path / "hf", tmp_path / "m.gguf", "gguf", scheme="BF16")
    report = verify(tmp_path / "hf", tmp_path / "m.gguf", Options(), Progress())
    assert report.verdict == "LOSSY-DECLARED"
    assert report.logits is not None
    assert report.logits.worst > 0
    assert len(report.logits.layers) == 4
    worst = max(report.tensors, key=lambda each: each.relative_rms)
    assert 1e-4 < worst.relative_rms < 1e-2
    (tmp_path / "plain").mkdir()
    raw = (tmp_path / "m.gguf").read_bytes()
    (tmp_path / "plain.gguf").write_bytes(raw.replace(b"pelton.conversion", b"somebody.nothing_"))
    assert verify(tmp_path / "hf", tmp_path / "plain.gguf", Options(), Progress()).verdict == "FAILED"


def test_a_report_says_everything(tmp_path: Path) -> None:
    make_small("experts", tmp_path / "hf")
    run(tmp_path / "hf", tmp_path / "m.gguf", "gguf")
    report = verify(tmp_path / "hf", tmp_path / "m.gguf", Options(levels=["L0", "L1", "L2"]), Progress())
    assert report.verdict == "UNVERIFIED"
    told = json.loads(dump(report))
    assert told["not_compared"] == ["L3", "L4", "L5"]
    assert told["version"] == 1
    assert len(told["files"]["source"][0]["sha256"]) == 64
    assert {each["name"] for each in told["tensors"]} >= {"embed", "layers.0.qkv", "layers.3.experts_down"}
    page = make_page(report)
    assert "UNVERIFIED" in page
    assert "Not compared: texts" in page
    assert "<script" not in page
    assert "http" not in page


def test_other_models_are_told_apart_at_once(tmp_path: Path) -> None:
    make_small("dense", tmp_path / "one")
    make_small("scaled", tmp_path / "two")
    report = verify(tmp_path / "one", tmp_path / "two", Options(), Progress())
    assert report.verdict == "FAILED"
    assert any(finding.id == "L1.SPEC:architecture" for finding in report.findings)


def test_what_cannot_be_opened_is_an_error(tmp_path: Path) -> None:
    make_small("dense", tmp_path / "one")
    with pytest.raises(CheckpointError, match="no such file"):
        verify(tmp_path / "one", tmp_path / "none", Options(), Progress())


def test_a_target_without_a_ledger_declares_nothing(tmp_path: Path) -> None:
    from pelton.checkpoint.checkpoint import open_checkpoint  # noqa: PLC0415

    make_small("dense", tmp_path / "hf")
    with open_checkpoint(tmp_path / "hf") as checkpoint:
        assert read_ledger(checkpoint) == {}
