"""Progress goes to standard error, or nowhere."""

import pytest

from pelton.checkpoint.hub.progress import Progress

pytestmark = pytest.mark.unit


def test_lines_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress("tiny", 200) as progress:
        progress.add(50)
        progress.add(50)
        progress.say("part 3")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "tiny: 50 % there; part 3\n"


def test_bar_on_a_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    with Progress("tiny", 200) as progress:
        progress.move_to(200)
        progress.say("not shown beside a bar")
    captured = capsys.readouterr()
    assert "tiny" in captured.err
    assert "not shown" not in captured.err


def test_silence(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress("tiny", 200, is_shown=False) as progress:
        progress.add(200)
        progress.say("x")
    assert progress.num_bytes == 200
    assert capsys.readouterr() == ("", "")
