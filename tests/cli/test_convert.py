"""The command: formats by name, one line of result, a ledger, and errors with what to do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.models.architectures import make_model

from pelton.api.progress import ByteBar
from pelton.checkpoint import tensor_file
from pelton.cli.main import main

pytestmark = pytest.mark.cpu


def test_the_format_follows_from_the_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_model("llama", tmp_path / "hf")
    assert main(["convert", str(tmp_path / "hf"), str(tmp_path / "m.gguf")]) == 0
    told = capsys.readouterr()
    assert "39 tensors" in told.out
    assert "reading back" in told.err
    assert main(["convert", str(tmp_path / "m.gguf"), str(tmp_path / "back"), "--json"]) == 0
    ledger = json.loads(capsys.readouterr().out)
    assert ledger["to"] == "safetensors"
    assert len(ledger["source"]["files"]["m.gguf"]["sha256"]) == 64
    assert (tmp_path / "back" / "conversion.json").exists()


@pytest.mark.parametrize(
    ("name", "flags", "message"),
    [
        ("llama", ("--to", "safetensors"), "is there already"),
        ("llama-dynamic", (), "--accept-loss layers"),
    ],
)
def test_what_is_refused_says_what_to_do(
    name: str, flags: tuple[str, ...], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_model(name, tmp_path / "hf")
    (tmp_path / "there.gguf").mkdir()
    target = "there.gguf" if flags else "new.gguf"
    assert main(["convert", str(tmp_path / "hf"), str(tmp_path / target), *flags]) == 65
    assert message in capsys.readouterr().err
    assert not (tmp_path / "new.gguf").exists()


def test_a_loss_can_be_accepted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_model("llama-dynamic", tmp_path / "hf")
    arguments = ["convert", str(tmp_path / "hf"), str(tmp_path / "m.gguf"), "--accept-loss", "layers"]
    assert main([*arguments, "--accept-loss", "max_position"]) == 0
    assert b"layers[0].rope" in (tmp_path / "m.gguf").read_bytes()
    assert "layers[0].rope and " in capsys.readouterr().out


def test_an_interruption_says_where_it_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    make_model("llama", tmp_path / "hf")
    monkeypatch.setattr(tensor_file, "STEP_BYTES", 1 << 14)
    advance, heard = ByteBar.advance, list[int]()

    def stop(self: ByteBar, num_bytes: int) -> None:
        heard.append(num_bytes)
        advance(self, num_bytes)
        if len(heard) == 30:  # files and tensors
            raise KeyboardInterrupt

    monkeypatch.setattr(ByteBar, "advance", stop)
    assert main(["convert", str(tmp_path / "hf"), str(tmp_path / "m.gguf")]) == 130
    assert "the same command goes on from" in capsys.readouterr().err
    assert (tmp_path / ".m.gguf.partial").exists()
    assert main(["convert", str(tmp_path / "hf"), str(tmp_path / "m.gguf")]) == 0
    assert not list(tmp_path.glob(".m*"))
