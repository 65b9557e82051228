"""The leak gates, in a process of their own: with the objects of all other tests around them they would count those."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.cpu  # real servers and processes
GATES = Path(__file__).with_name("quiescence.py")


def test_nothing_is_left_of_thousands_of_requests() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(GATES)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, cwd=GATES.parents[2])
    assert done.returncode == 0, done.stdout[-5000:]
