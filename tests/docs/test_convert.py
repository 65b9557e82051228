"""Names in docs/how-to/convert.md are those of the code and of its flags."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pelton.checkpoint.gguf.tokenizer_source import END_IDS
from pelton.cli.main import main
from pelton.conversion.ledger import LEDGER, LEDGER_KEY
from pelton.conversion.restore import SIDE_FILE
from pelton.conversion.to_gguf import DTYPES, FILE, TENSOR, TOKENIZER_JSON
from pelton.conversion.workplace import SUFFIX

pytestmark = pytest.mark.unit
TEXT = (Path(__file__).parents[2] / "docs" / "how-to" / "convert.md").read_text(encoding="utf-8")


def test_keys_and_files_are_called_so() -> None:
    named = set(re.findall(r"`(pelton\.[a-z_.]+(?:NAME)?)`", TEXT))
    assert named == {FILE + "NAME", DTYPES, TENSOR + "NAME", END_IDS, SIDE_FILE, LEDGER_KEY}
    assert f"`{TOKENIZER_JSON}`" in TEXT
    assert f"`{LEDGER}`" in TEXT
    assert f"`.TARGET{SUFFIX}`" in TEXT


def test_flags_that_are_explained_exist(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", "--help"]) == 0
    told = capsys.readouterr().out
    flags = set(re.findall(r"`(--[a-z-]+)", TEXT))
    assert flags >= {"--to", "--strict", "--accept-loss", "--scheme", "--force", "--json"}
    assert all(flag in told for flag in flags)
