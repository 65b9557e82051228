"""Options and fixtures of the whole suite."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

import pytest
from tests.golden_file import Golden


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--update-golden` writes what tests see instead of comparing; the difference is then reviewed in git."""
    parser.addoption("--update-golden", action="store_true", help="write golden files instead of comparing with them")
    parser.addoption("--native", type=Path, help="test this build of the native module, not the installed one")
    parser.addoption("--isa", help="run with this instruction set; tests that try each one by themselves are left out")


def pytest_configure(config: pytest.Config) -> None:
    """Put the asked kernels in the place of the installed and best ones, before anything imports those."""
    path: Path | None = config.getoption("--native")
    if path is not None:
        load_native(path)
    if isa := config.getoption("--isa"):
        from pelton.backends.cpu import set_isa  # noqa: PLC0415 - after the module has been chosen

        set_isa(isa)
        os.environ["PELTON_ISA"] = isa  # for the processes that tests start


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With `--isa`, leave out what chooses its instruction set: it tries all of them in any run."""
    if config.getoption("--isa"):
        items[:] = [item for item in items if not chooses_isa(item)]


def chooses_isa(item: pytest.Item) -> bool:
    """Whether a test is told its instruction set by a parameter."""
    call = getattr(item, "callspec", None)  # only of tests with parameters
    if call is None:
        return False
    return (
        bool({"isa", "fast_isa"} & call.params.keys()) or getattr(call.params.get("candidate"), "isa", None) is not None
    )


def load_native(path: Path) -> None:
    """Import the native module from `path`."""
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
