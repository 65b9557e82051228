"""One tiny model and one server for all tests that do not end it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.end_to_end.served import Served, serve
from tests.fakes import TinyModel


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a random model."""
    return TinyModel().write(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="session")
def served(tiny_model: Path) -> Iterator[Served]:
    """A server for `tiny_model`."""
    with serve(tiny_model, "--max-num-requests", "8", "--num-threads", "1") as running:
        yield running
        assert running.end() == 0
