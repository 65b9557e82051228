import json
from pathlib import Path

import pytest

from pelton.cli import models
from pelton.cli.main import main

pytestmark = pytest.mark.unit


@pytest.fixture(autouse=True)
def _empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PELTON_CACHE", str(tmp_path))


def test_list(capsys: pytest.CaptureFixture[str]):
    assert main(["models", "list"]) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.split() == ["name", "size", "cache", "model"]
    assert any("demo" in line and "Apache-2.0" in line for line in lines)


def test_list_as_json(capsys: pytest.CaptureFixture[str]):
    assert main(["models", "list", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert any("demo" in row["also"] for row in rows)
    assert all(row["path"] is None and row["num_bytes"] > 0 for row in rows)


def test_where_tells_how_to_get_what_is_missing(capsys: pytest.CaptureFixture[str]):
    assert main(["models", "where", "demo"]) == 65
    assert "'pelton models pull demo'" in capsys.readouterr().err
    assert main(["models", "where", "dem"]) == 2
    assert "demo" in capsys.readouterr().err


def test_pull_and_where_print_the_path(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setattr(models, "pull", lambda name: Path("folder") / name)
    monkeypatch.setattr(models, "where", lambda name: Path("folder") / name)
    assert main(["models", "pull", "demo"]) == 0
    assert main(["models", "where", "demo"]) == 0
    assert capsys.readouterr().out == f"{Path('folder/demo')}\n" * 2


def test_packed_weights_are_listed_with_their_verdicts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    verdicts = [("a.packed", "model.gguf", "good")]
    monkeypatch.setattr("pelton.api.explain.check_packed_weights", lambda folder: verdicts if folder == "auto" else [])
    assert main(["models", "verify"]) == 0
    out = capsys.readouterr().out
    assert "a.packed" in out
    assert "all good" in out
    verdicts.append(("b.packed", "model.gguf", "its header is longer than the file"))
    assert main(["models", "verify"]) != 0
    captured = capsys.readouterr()
    assert "longer than the file" in captured.out
    assert "b.packed: is not what it should be" in captured.err
