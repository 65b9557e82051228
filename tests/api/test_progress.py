"""The progress bar stays silent where nobody looks."""

from __future__ import annotations

import io
import sys

import pytest

from pelton.api.progress import ProgressBar, StartBar, in_steps

pytestmark = pytest.mark.unit


class Terminal(io.StringIO):
    """A stderr that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("is_shown", [True, False])
def test_it_is_shown_on_terminals_only_if_asked(is_shown: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with ProgressBar("Prompts", 2, is_shown=is_shown) as bar:
        bar.advance(5)
        bar.advance(5)
    assert ("Prompts" in terminal.getvalue()) == is_shown


def test_it_writes_nothing_into_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    file = io.StringIO()
    monkeypatch.setattr(sys, "stderr", file)
    with ProgressBar("Prompts", 1) as bar:
        bar.advance()
    assert file.getvalue() == ""


@pytest.mark.parametrize("is_shown", [True, False])
def test_a_start_shows_its_stages_on_terminals_only_if_asked(is_shown: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with StartBar(is_shown=is_shown) as bar:
        bar("finding the model", 0.0)
        bar("loading weights", 0.5)
    assert ("loading weights" in terminal.getvalue()) == is_shown


def test_fractions_are_passed_on_in_steps_and_the_last_one_always() -> None:
    heard: list[float] = []
    hear = in_steps(heard.append, 0.25)
    for i in range(101):
        hear(i / 100)
    assert heard == [0.25, 0.5, 0.75, 1.0]
    hear(1.0)
    assert len(heard) == 4
    short = in_steps(heard.append, 0.9)
    short(0.2)
    short(1.0)
    assert heard[4:] == [1.0]
