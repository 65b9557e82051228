from pathlib import Path

import pytest
from tests.inspection.models import change, inspect, write

from pelton.checkpoint.contract import TensorInfo
from pelton.inspection.report import Report
from pelton.inspection.scan import Numbers
from pelton.inspection.screen import format_report, format_tensors

pytestmark = pytest.mark.unit


def test_a_sound_model_fits_a_screen(tmp_path: Path) -> None:
    write(tmp_path)
    change(tmp_path / "generation_config.json", {"eos_token_id": 258})
    text = format_report(inspect(tmp_path))
    lines = text.splitlines()
    assert len(lines) <= 30
    assert max(map(len, lines[1:])) <= 118
    assert lines[2].startswith("size          156,608 parameters, 39 tensors, 626.4 kB")
    assert "stop ids      258 '<|im_end|>'" in lines
    assert lines[-1] == "nothing suspicious was found"


def test_names_of_strangers_do_not_move_the_cursor(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "evil\x1b[2J.py").write_text("x")
    (tmp_path / "chat_template.jinja").write_text("{{ '\x1b[2J' }}")
    text = format_report(inspect(tmp_path))
    assert "\x1b" not in text
    assert r"evil\x1b[2J.py" in text


def test_refusals_stand_at_the_end(tmp_path: Path) -> None:
    text = format_report(inspect(write(tmp_path, config={"strange": 1})))
    head, _, tail = text.partition("refused: this model cannot be served\n")
    assert "size " in head
    assert "'strange'" in tail


def test_tensors_are_a_table() -> None:
    report = Report(path="x", format="safetensors", refusals=[])
    assert format_tensors(report).startswith("tensor  shape  scheme  bytes")
    numbers = Numbers(num_not_finite=1, num_zero=2, minimum=-1.5, maximum=2.0, mean=0.25)
    report.tensors = {"a": TensorInfo("a", (1000, 2), "F32", 8000), "b": TensorInfo("b", (), "I8", 1)}
    report.numbers = {"a": numbers, "b": None}
    _, first, second = format_tensors(report).splitlines()
    assert first.split() == ["a", "1000", "x", "2", "F32", "8,000", "-1.5", "2", "0.25", "2", "1"]
    assert second.split() == ["b", "scalar", "I8", "1", *"-----"]
