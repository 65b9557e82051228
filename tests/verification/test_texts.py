"""Without tokenizers there is nothing to say about texts, and with one only it is a loss."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.models.architectures import make_model
from tests.verification.small_model import make_small

from pelton.checkpoint.checkpoint import open_checkpoint
from pelton.verification.texts import compare_texts

pytestmark = pytest.mark.cpu


def compare(one: Path, two: Path) -> dict[str, str]:
    with open_checkpoint(one) as ours, open_checkpoint(two) as theirs:
        _, findings = compare_texts(ours, theirs, lambda count: None)
    return {finding.id: finding.weight for finding in findings}


def test_models_without_texts(tmp_path: Path) -> None:
    make_model("llama", tmp_path / "bare")
    make_small("dense", tmp_path / "whole")
    assert compare(tmp_path / "bare", tmp_path / "bare") == {"L3.TOKENIZER": "note"}
    assert compare(tmp_path / "whole", tmp_path / "bare") == {"L3.TOKENIZER": "fails"}


def test_a_broken_tokenizer_is_one_finding(tmp_path: Path) -> None:
    make_small("dense", tmp_path / "one")
    make_small("dense", tmp_path / "two")
    (tmp_path / "two" / "tokenizer.json").write_text("{}")
    assert compare(tmp_path / "one", tmp_path / "two") == {"L3.TOKENIZER:target": "fails"}


def test_another_spelling_of_a_template_is_a_note(tmp_path: Path) -> None:
    make_small("dense", tmp_path / "one")
    make_small("dense", tmp_path / "two")
    path = tmp_path / "two" / "tokenizer_config.json"
    config = json.loads(path.read_text())
    config["chat_template"] = "{# a remark #}" + config["chat_template"]
    path.write_text(json.dumps(config))
    assert compare(tmp_path / "one", tmp_path / "two") == {"L3.TEMPLATE_TEXT:chat_template": "note"}
