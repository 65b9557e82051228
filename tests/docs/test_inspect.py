"""The screen in docs/how-to/inspect.md is what the command prints."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.fakes import CHAT_TEMPLATE, TinyModel
from tests.inspection.models import change

from pelton.cli.main import main

pytestmark = pytest.mark.unit
TEXT = (Path(__file__).parents[2] / "docs" / "how-to" / "inspect.md").read_text(encoding="utf-8")


def test_the_screen_is_what_is_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    TinyModel(architecture="Gemma3ForCausalLM").write(tmp_path / "tiny-gemma")
    change(tmp_path / "tiny-gemma" / "generation_config.json", {"eos_token_id": [258], "repetition_penalty": 1.1})
    (tmp_path / "tiny-gemma" / "chat_template.jinja").write_text(CHAT_TEMPLATE + "\n")
    (tmp_path / "tiny-gemma" / "modeling_tiny.py").write_text("import os\n")
    monkeypatch.chdir(tmp_path)
    assert main(["inspect", "tiny-gemma"]) == 0
    (shown,) = re.findall(r"```\n\$ pelton inspect tiny-gemma\n(.*?)```", TEXT, re.DOTALL)
    assert capsys.readouterr().out == shown


def test_flags_that_are_explained_exist(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", "--help"]) == 0
    told = capsys.readouterr().out
    assert all(flag in told for flag in re.findall(r"`(--[a-z]+)`", TEXT) if flag != "--chat-template")
