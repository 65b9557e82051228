"""A target that says something else than its source is found out, field by field."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.conversion.test_to_gguf import with_tokenizer

from pelton.checkpoint.checkpoint import open_checkpoint
from pelton.conversion.convert import Options, Progress, convert
from pelton.conversion.read_back import compare

pytestmark = pytest.mark.cpu
__all__ = ["with_tokenizer"]


def find(source: Path, target: Path) -> list[str]:
    with open_checkpoint(source) as checkpoint:
        return [loss.field for loss in compare(checkpoint, target, checkpoint.spec)]


def test_every_kind_of_difference_has_a_name(with_tokenizer: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    convert(with_tokenizer, copy, "safetensors", Options(), Progress())
    assert find(with_tokenizer, copy) == []
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps({**config, "rms_norm_eps": 1e-3}))
    (copy / "generation_config.json").write_text(json.dumps({"eos_token_id": [632], "top_k": 20, "do_sample": True}))
    (copy / "chat_template.jinja").write_text("{{ messages[0].content }}\n\n")
    tokenizer = json.loads((copy / "tokenizer.json").read_text())
    tokenizer["model"]["merges"] = tokenizer["model"]["merges"][:3]
    (copy / "tokenizer.json").write_text(json.dumps(tokenizer))
    assert set(find(with_tokenizer, copy)) == {"norm_eps", "temperature", "eos_token_id", "tokenizer", "chat_template"}
