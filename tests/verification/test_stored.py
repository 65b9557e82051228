"""Models that cannot be run are held against each other by name and byte."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from pelton.conversion import convert as conversion
from pelton.errors import CheckpointError
from pelton.verification.verify import Options, Progress, Report, verify

pytestmark = pytest.mark.unit


def check(source: Path, target: Path) -> Report:
    return verify(source, target, Options(), Progress())


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    """A model of sentence embeddings and its copy in another container."""
    source = tmp_path / "source"
    source.mkdir()
    (source / "config.json").write_text(json.dumps({"architectures": ["BertModel"], "model_type": "bert"}))
    (source / "vocab.txt").write_text("a\nb\n")
    tensors = {"a": torch.arange(12.0).reshape(3, 4), "ids": torch.arange(5), "one": torch.tensor(2.5)}
    save_file(tensors, source / "model.safetensors", metadata={"format": "pt"})
    conversion.convert(source, tmp_path / "copy", "pytorch", conversion.Options(), conversion.Progress())
    return source, tmp_path / "copy"


def test_a_copy_is_lossless(pair: tuple[Path, Path]) -> None:
    report = check(*pair)
    assert report.verdict == "LOSSLESS"
    assert report.levels == ["L0", "L1", "L3", "L2"]
    assert [finding.id for finding in report.findings] == ["L4.SKIPPED"]
    assert "BertModel" in report.findings[0].what


@pytest.mark.parametrize(
    ("name", "finding"), [("config.json", "L1.FILE:config.json"), ("vocab.txt", "L3.FILE:vocab.txt")]
)
def test_a_file_that_was_changed_or_lost_is_found(name: str, finding: str, pair: tuple[Path, Path]) -> None:
    path = pair[1] / name
    path.write_text(path.read_text().replace("b", "c"))
    report = check(*pair)
    assert report.verdict == "FAILED"
    assert finding in [each.id for each in report.findings]
    if name != "config.json":
        path.unlink()
        assert finding in [each.id for each in check(*pair).findings]


@pytest.mark.parametrize("name", ["a", "ids", "one"])
def test_a_tensor_that_was_changed_is_found(name: str, pair: tuple[Path, Path], tmp_path: Path) -> None:
    copy = tmp_path / "other"
    conversion.convert(pair[0], copy, "safetensors", conversion.Options(), conversion.Progress())
    tensors = load_file(copy / "model.safetensors")
    tensors[name] = tensors[name] + 1
    save_file(tensors, copy / "model.safetensors")
    report = check(pair[0], copy)
    assert report.verdict == "FAILED"
    assert any(finding.id.endswith(f":{name}") and finding.level == "L2" for finding in report.findings)


def test_a_rounded_copy_and_a_missing_tensor(pair: tuple[Path, Path], tmp_path: Path) -> None:
    copy = tmp_path / "other"
    conversion.convert(pair[0], copy, "safetensors", conversion.Options(), conversion.Progress())
    tensors = load_file(copy / "model.safetensors")
    save_file({**tensors, "a": tensors["a"].half()}, copy / "model.safetensors")
    assert check(pair[0], copy).verdict == "EQUIVALENT"  # whole numbers
    del tensors["ids"]
    save_file(tensors, copy / "model.safetensors")
    assert "L2.PLACES" in [finding.id for finding in check(pair[0], copy).findings]


def test_a_target_without_weights_is_an_error(pair: tuple[Path, Path]) -> None:
    (pair[1] / "pytorch_model.bin").unlink()
    with pytest.raises(CheckpointError, match="has no weights"):
        check(*pair)


def test_only_a_copy_is_compared(pair: tuple[Path, Path], tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="only a copy is compared"):
        check(pair[0], tmp_path / "nothing")
