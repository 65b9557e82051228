import json

import pytest

from pelton.cli.main import main

pytestmark = pytest.mark.cpu

SMALL = ["--seconds", "0.02", "--read-mib", "64", "--num-threads", "1"]


def test_a_line_of_json(capsys: pytest.CaptureFixture[str]):
    assert main(["bench", "calibrate", *SMALL]) == 0
    out, err = capsys.readouterr()
    (line,) = out.splitlines()
    found = json.loads(line)
    assert found["all_threads"]["int8_ops_per_s"] > 0
    assert found["one_thread"]["small_page_read_bytes_per_s"] > 0
    assert err == ""


def test_a_quick_table(capsys: pytest.CaptureFixture[str]):
    assert main(["bench", "calibrate", "--quick", "--markdown", *SMALL]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "| what | value | unit | note |"
    assert any(line.startswith("| int8, 1 thread |") for line in lines)
