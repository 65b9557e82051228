"""What is lost and accepted stands in the ledger, also where that stands before the tensors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.models.architectures import make_model

from pelton.checkpoint.checkpoint import open_checkpoint
from pelton.checkpoint.gguf.checkpoint import GgufCheckpoint
from pelton.conversion.convert import Options, Progress, convert
from pelton.conversion.ledger import LEDGER_KEY
from pelton.conversion.write import write_files
from pelton.errors import CheckpointError

pytestmark = pytest.mark.cpu


def test_a_gguf_says_what_was_accepted(tmp_path: Path) -> None:
    make_model("qwen2-windows", tmp_path / "hf")
    ledger = convert(tmp_path / "hf", tmp_path / "m.gguf", "gguf", Options(accepted=("layers",)), Progress())
    assert any(loss["field"] == "layers[2].window" for loss in ledger["losses"])
    with open_checkpoint(tmp_path / "m.gguf") as checkpoint:
        assert isinstance(checkpoint, GgufCheckpoint)
        text = checkpoint.metadata[LEDGER_KEY]
        assert isinstance(text, str)
        assert json.loads(text) == json.loads(json.dumps(ledger))


def test_names_that_lead_away_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="x: carries a file called"):
        write_files(tmp_path / "part", {"../y": b""}, "x")
    assert not (tmp_path / "y").exists()


def test_the_way_back_is_that_of_the_carried_configuration(tmp_path: Path) -> None:
    make_model("qwen2-windows", tmp_path / "hf")
    convert(tmp_path / "hf", tmp_path / "m.gguf", "gguf", Options(accepted=("layers",)), Progress())
    convert(tmp_path / "m.gguf", tmp_path / "back", "safetensors", Options(), Progress())
    with open_checkpoint(tmp_path / "hf") as one, open_checkpoint(tmp_path / "back") as two:
        assert one.spec == two.spec
