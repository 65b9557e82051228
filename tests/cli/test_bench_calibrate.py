import json
from functools import partial

import pytest

from pelton.bench.calibrate import calibrate
from pelton.cli import bench_calibrate
from pelton.cli.main import main

pytestmark = pytest.mark.cpu

SMALL = ["--seconds", "0.02", "--num-threads", "1"]


@pytest.fixture(autouse=True)
def little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reads 64 MiB, not a GiB."""
    monkeypatch.setattr(bench_calibrate, "calibrate", partial(calibrate, read_bytes=64 << 20))


def test_a_line_of_json(capsys: pytest.CaptureFixture[str]):
    assert main(["bench", "calibrate", *SMALL]) == 0
    out, err = capsys.readouterr()
    (line,) = out.splitlines()
    found = json.loads(line)
    assert found["all_threads"]["int8_ops_per_s"] > 0
    assert found["one_thread"]["small_page_read_bytes_per_s"] > 0
    assert err == ""


def test_a_table(capsys: pytest.CaptureFixture[str]):
    assert main(["bench", "calibrate", "--markdown", *SMALL]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "| what | value | unit | note |"
    assert any(line.startswith("| int8, 1 thread |") for line in lines)
