"""A refactor may not change a single decision of the scheduler."""

import json

import pytest
from tests.golden.schedule import get_path, record
from tests.simulation.traffic import DAYS

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("day", DAYS)
def test_schedule_is_unchanged(day: str) -> None:
    """A policy change writes the files again (`python -m tests.golden.schedule`), and their diff is reviewed."""
    assert record(day) == json.loads(get_path(day).read_text())
