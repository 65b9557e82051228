import json
from pathlib import Path

import pytest
from tests.fakes import TinyModel

from pelton.cli.main import main

pytestmark = pytest.mark.cpu


def test_lines_of_text_and_of_steps(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    folder = str(TinyModel().write(tmp_path / "tiny"))
    assert main(["bench", "host", folder, "--repeat", "2"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {row["what"] for row in rows} > {"tokenize", "detokenize", "stream event", "engine step"}
    assert all(row["us"] > 0 for row in rows)
