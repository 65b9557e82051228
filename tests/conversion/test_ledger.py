"""Every file that a target is made of is in its ledger, with its hash."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from tests.models.architectures import make_model

from pelton.conversion.convert import Options, Progress, convert
from pelton.conversion.ledger import LEDGER, hash_files

pytestmark = pytest.mark.cpu


def test_hashes_are_those_of_the_files(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x" * 100)
    heard: list[int] = []
    digest = hashlib.sha256(b"x" * 100).hexdigest()
    assert hash_files({"a": tmp_path / "a"}, heard.append) == {"a": {"bytes": 100, "sha256": digest}}
    assert heard == [100]


def test_equal_conversions_give_equal_ledgers(tmp_path: Path) -> None:
    make_model("qwen3_moe", tmp_path / "hf")
    (tmp_path / "hf" / "notes.xyz").write_text("x")
    one = convert(tmp_path / "hf", tmp_path / "a.gguf", "gguf", Options(), Progress())
    two = convert(tmp_path / "hf", tmp_path / "b.gguf", "gguf", Options(), Progress())
    assert one == two
    assert (tmp_path / "a.gguf").read_bytes() == (tmp_path / "b.gguf").read_bytes()
    assert set(one["source"]["files"]) >= {"config.json", "model.safetensors"}
    assert {loss["field"] for loss in one["losses"]} >= {"file notes.xyz", "tokenizer"}
    stacked = next(each for each in one["tensors"] if each["target"] == "blk.0.ffn_up_exps.weight")
    assert stacked["steps"]
    back = convert(tmp_path / "a.gguf", tmp_path / "back", "safetensors", Options(), Progress())
    assert json.loads((tmp_path / "back" / LEDGER).read_text())["source"] == back["source"]
    assert set(back["source"]["files"]) == {"a.gguf"}
