import json
from pathlib import Path

import pytest
from tests.bench.calibrations import make_calibration

from pelton.cli import bench_output
from pelton.cli.bench_output import Output
from pelton.errors import InternalError

pytestmark = pytest.mark.unit


@pytest.fixture
def calibrations(monkeypatch: pytest.MonkeyPatch) -> list[int | None]:
    """The numbers of threads that calibrations were asked for."""
    asked: list[int | None] = []

    def calibrate(*, num_threads: int | None) -> object:
        asked.append(num_threads)
        return make_calibration()

    monkeypatch.setattr(bench_output, "calibrate_quickly", calibrate)
    return asked


def test_rows_are_lines_of_json(calibrations: list[int | None], capsys: pytest.CaptureFixture[str]):
    with Output("x", markdown=False, save=None) as output:
        output.add({"a": 1.23456789})
        assert capsys.readouterr().out == '{"a": 1.235}\n'
    assert calibrations == []


def test_a_table_stands_at_the_end(capsys: pytest.CaptureFixture[str]):
    with Output("x", markdown=True, save=None) as output:
        output.add({"a": 1})
        assert capsys.readouterr().out == ""
    assert capsys.readouterr().out == "| a |\n|---|\n| 1 |\n"


def test_rows_with_other_columns_are_another_table(capsys: pytest.CaptureFixture[str]):
    with Output("x", markdown=True, save=None) as output:
        for row in ({"a": 1}, {"b": 2}, {"a": 3}):
            output.add(row)
    assert capsys.readouterr().out == "| a |\n|---|\n| 1 |\n| 3 |\n\n| b |\n|---|\n| 2 |\n"


def test_a_file_has_the_limits_before_and_after(
    calibrations: list[int | None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = tmp_path / "result.json"
    with Output("x", markdown=False, save=path, num_threads=3) as output:
        assert calibrations == [3]
        output.add({"a": 1})
    assert calibrations == [3, 3]
    assert json.loads(path.read_text())["rows"] == [{"a": 1}]
    assert capsys.readouterr().err == f"saved to {path}\n"


def test_a_measurement_that_failed_leaves_no_file(calibrations: list[int | None], tmp_path: Path):
    path = tmp_path / "result.json"
    output = Output("x", markdown=True, save=path).__enter__()
    output.add({"a": 1})
    output.__exit__(InternalError, InternalError("broken"), None)
    assert not path.exists()
