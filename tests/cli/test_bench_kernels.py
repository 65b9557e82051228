import json
from functools import partial

import pytest

from pelton.bench.kernels import suite
from pelton.cli.main import main

pytestmark = pytest.mark.cpu

QUICK = ["--seconds", "0.001", "--num-threads", "1"]


@pytest.fixture(autouse=True)
def little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calibrations read little, and little is more than the cache."""
    monkeypatch.setattr(suite, "calibrate_quickly", partial(suite.calibrate_quickly, 0.01))
    monkeypatch.setattr(suite, "QUICK_BYTES", 64 << 20)


def test_a_line_of_json_for_each_result(capsys: pytest.CaptureFixture[str]):
    assert main(["bench", "kernels", "op=rms_norm,rotary", "rows=1,4", *QUICK]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(row["op"], row["rows"]) for row in rows] == [
        ("rms_norm", 1), ("rms_norm", 4), ("rotary", 1), ("rotary", 4),
    ]  # fmt: skip
    assert all(row["time_us"] > 0 and row["median_us"] >= row["time_us"] and row["runs"] >= 1 for row in rows)


def test_a_table_for_each_kind_of_op(capsys: pytest.CaptureFixture[str]):
    assert main(["bench", "kernels", "op=rms_norm,rotary", "rows=1,4", "--markdown", *QUICK]) == 0
    out = capsys.readouterr().out
    assert out.count("\n|---|") == 2
    assert "op: rms_norm, width: 896" in out


def test_a_wrong_word(capsys: pytest.CaptureFixture[str]):
    assert main(["bench", "kernels", "op=rms_nrm"]) == 2
    assert "Did you mean 'rms_norm'?" in capsys.readouterr().err
