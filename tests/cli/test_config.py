import json
from pathlib import Path

import pytest
from tests.config.facts import MACHINE, MODEL
from tests.fakes import TinyModel

from pelton.cli.config import format_rows
from pelton.cli.main import main
from pelton.config.report import make_rows
from pelton.config.resolve import resolve
from pelton.config.user_config import ask

pytestmark = pytest.mark.unit


def test_every_value_stands_with_its_reason():
    asked = ask(model="demo", port=80)
    config, decisions = resolve(asked, MODEL, MACHINE)
    lines = format_rows(make_rows(config, asked, decisions)).splitlines()
    assert [line for line in lines if line[0] != " "] == [
        "model:",
        "cache:",
        "scheduler:",
        "runner:",
        "server:",
        "log:",
    ]
    words = {line.split()[0]: line.split(maxsplit=2)[1:] for line in lines if line[0] == " "}
    assert words["port"] == ["80", "asked: port"]
    assert words["host"] == ["127.0.0.1", "default"]
    assert words["num_threads"] == ["4", "4 physical cores are available to this process"]


def test_a_model_is_opened_for_its_sizes_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    folder = str(TinyModel().write(tmp_path / "tiny"))
    assert main(["config", "serve", folder, "--max-num-seqs", "2"]) == 0
    assert "tiny" in capsys.readouterr().out
    assert main(["config", "serve", folder, "--max-num-seqs", "2", "--json"]) == 0
    settings = json.loads(capsys.readouterr().out)
    assert settings["scheduler"]["max_num_requests"] == {"value": 2, "source": "asked", "why": "--max-num-requests"}
    assert settings["model"]["served_model_name"]["value"] == ["tiny"]


def test_a_wrong_flag_is_told_without_opening_a_model(capsys: pytest.CaptureFixture[str]):
    assert main(["config", "serve", "no-such-model", "--port", "x"]) == 2
    assert capsys.readouterr().err == "pelton: error: --port: 'x' is not a whole number.\n"


def test_no_model(capsys: pytest.CaptureFixture[str]):
    assert main(["config", "serve"]) == 2
    assert "MODEL is missing" in capsys.readouterr().err
