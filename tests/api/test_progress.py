"""The progress bar stays silent where nobody looks."""

from __future__ import annotations

import io
import sys

import pytest

from pelton.api.progress import ProgressBar

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
