"""Options and fixtures of the whole suite."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest
from tests.golden_file import Golden


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--update-golden` writes what tests see instead of comparing; the difference is then reviewed in git."""
    parser.addoption("--update-golden", action="store_true", help="write golden files instead of comparing with them")
    parser.addoption("--native", type=Path, help="test this build of the native module, not the installed one")


def pytest_configure(config: pytest.Config) -> None:
    """Load the module of `--native` in the place of the installed one, before anything imports that."""
    path: Path | None = config.getoption("--native")
    if path is None:
        return
    name = "pelton.backends.cpu._native"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None, f"--native: {path} is not a module"
    assert spec.loader is not None, f"--native: {path} is not a module"
    assert name not in sys.modules, "--native: the installed module was imported before"
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """Compares text with the files of tests/golden."""
    return Golden(Path(__file__).parent / "golden", is_updating=request.config.getoption("--update-golden"))
