"""Options and fixtures of the whole suite."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.golden_file import Golden


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--update-golden` writes what tests see instead of comparing; the difference is then reviewed in git."""
    parser.addoption("--update-golden", action="store_true", help="write golden files instead of comparing with them")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """Compares text with the files of tests/golden."""
    return Golden(Path(__file__).parent / "golden", is_updating=request.config.getoption("--update-golden"))
