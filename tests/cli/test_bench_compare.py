import json
import sys
from pathlib import Path

import pytest
from tests.bench.blocks import calibration_of
from tests.bench.fake_peer import CONSTANT_TIMES, write_peer
from tests.fakes import TinyModel

from pelton.cli import bench_compare
from pelton.cli.bench_compare import make_works
from pelton.cli.main import main

pytestmark = pytest.mark.cpu
FLAGS = ["--num-threads", "1", "--kv-cache-memory-bytes", "1MiB", "--max-model-len", "128"]
SIZES = ["--batch", "1,3", "--prompt", "20", "--output", "6", "--blocks", "2"]


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return str(TinyModel().write(tmp_path / "tiny"))


@pytest.fixture(autouse=True)
def quiet_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine in one state: what a real one does meanwhile is not this file's matter."""
    monkeypatch.setattr(bench_compare, "calibrate_quickly", lambda **_: calibration_of())
    monkeypatch.setattr("pelton.bench.comparison.MAX_STEAL", 1.0)


def test_ratios_of_two_engines_whose_speeds_are_known(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    peer = write_peer(tmp_path, CONSTANT_TIMES)
    quick = tmp_path / "quick.py"
    quick.write_text(CONSTANT_TIMES.replace("prefill_s=1.0", "prefill_s=0.5"), encoding="utf-8")
    monkeypatch.setattr(bench_compare, "make_own_command", lambda _: [sys.executable, str(quick)])
    who = ["--peer", str(peer), "--peer-python", sys.executable]
    assert main(["bench", "compare", folder, *FLAGS, *who, *SIZES, "--save", str(tmp_path / "saved")]) == 0
    out, err = capsys.readouterr()
    rows = [json.loads(line) for line in out.splitlines()]
    assert [(row["metric"], row["batch"], row["ratio"], row["blocks_kept"]) for row in rows] == [
        ("prefill", 1, 2.0, 2), ("decode", 1, 1.0, 2), ("prefill", 3, 2.0, 2), ("decode", 3, 1.0, 2),
    ]  # fmt: skip
    assert [row["their_tokens_per_s"] for row in rows] == [20, 6, 60, 18]
    assert rows[0]["theirs"].startswith("flat 1 (")
    (saved,) = (tmp_path / "saved").glob("*.json")
    assert f"saved to {saved}" in err
    assert {path.suffix for path in (tmp_path / "saved").iterdir()} == {".json", ".md", ".svg"}


def test_our_engine_against_a_peer(folder: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    peer = write_peer(tmp_path, CONSTANT_TIMES)
    who = ["--peer", str(peer), "--peer-python", sys.executable, "--markdown"]
    assert main(["bench", "compare", folder, *FLAGS, *who, *SIZES]) == 0
    out = capsys.readouterr().out
    assert "ours: pelton" in out
    assert "| metric | batch | " in out
    assert out.count("| prefill |") == out.count("| decode |") == 2


def test_a_peer_that_cannot_start(folder: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    peer = write_peer(tmp_path, "raise SystemExit('no such module: llama')")
    assert main(["bench", "compare", folder, *FLAGS, "--peer", str(peer), "--peer-python", sys.executable]) == 69
    err = capsys.readouterr().err
    assert "ended with exit code 1. The end of what it wrote to stderr: no such module: llama" in err


def test_a_peer_that_is_not_there(folder: str, capsys: pytest.CaptureFixture[str]):
    assert main(["bench", "compare", folder, "--peer", "nobody"]) == 2
    assert "--peer: 'nobody' is neither a script nor" in capsys.readouterr().err


def test_a_peer_is_wanted(folder: str, capsys: pytest.CaptureFixture[str]):
    assert main(["bench", "compare", folder]) == 2
    assert "--peer" in capsys.readouterr().err


def test_ids_are_in_the_vocabulary():
    (work,) = make_works([1], 300, prompt=8, output=4, depth=2)
    assert (work.first_id, work.last_id, work.depth) == (150, 299, 2)
    (work,) = make_works([1], 150_000, prompt=8, output=4, depth=0)
    assert (work.first_id, work.last_id) == (1000, 20000)
