"""The command writes a GGUF and says what it costs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.models.architectures import make_model

from pelton.cli.main import main

pytestmark = pytest.mark.cpu


def test_the_cost_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_model("qwen2_moe-normalised", tmp_path / "hf")
    assert main(["quantize", str(tmp_path / "hf"), str(tmp_path / "m.gguf"), "--bits", "q8_0", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["bytes"] == (tmp_path / "m.gguf").stat().st_size
    assert 0 <= told["mean_kl"] < 0.1
    assert len(told["worst"]) == 5
    assert main(["quantize", str(tmp_path / "hf"), str(tmp_path / "m.gguf")]) == 65
    assert "is there already" in capsys.readouterr().err
    assert main(["quantize", str(tmp_path / "hf"), str(tmp_path / "m.gguf"), "--bits", "q4_0", "--force"]) == 0
    assert "nats from the source" in capsys.readouterr().out
