import json
from pathlib import Path

import pytest
from tests.fakes import TinyModel

from pelton.cli.main import main

SIZES = ["--agents", "2", "--turns", "2", "--shared", "60", "--question", "4", "--output", "4"]


@pytest.mark.cpu
def test_the_cache_is_measured_on_and_off(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    folder = str(TinyModel().write(tmp_path / "tiny"))
    flags = ["--num-threads", "1", "--kv-cache-memory-bytes", "16MiB", "--max-model-len", "512"]
    assert main(["bench", "agents", folder, *flags, *SIZES]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(row["prefix_cache"], row["turns"], row["num_answers"]) for row in rows] == [
        (True, "first", 2),
        (True, "later", 2),
        (False, "first", 2),
        (False, "later", 2),
    ]
    assert rows[1]["cached_share"] > 0.5
    assert [row["cached_share"] for row in rows[2:]] == [0, 0]
    assert [row["same_answers"] for row in rows[2:]] == [True, True]


@pytest.mark.cpu
def test_only_what_is_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    folder = str(TinyModel().write(tmp_path / "tiny"))
    flags = ["--num-threads", "1", "--kv-cache-memory-bytes", "16MiB", "--max-model-len", "512"]
    assert main(["bench", "agents", folder, *flags, *SIZES, "--no-enable-prefix-caching", "--turns", "1"]) == 0
    (row,) = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert (row["prefix_cache"], row["turns"]) == (False, "first")
    assert "same_answers" not in row


@pytest.mark.unit
def test_model_is_needed(capsys: pytest.CaptureFixture[str]):
    assert main(["bench", "agents"]) == 2
    assert "MODEL is missing" in capsys.readouterr().err
