"""The checks hold without `assert` statements and docstrings too: they are code, not remarks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.cpu  # a process
ROOT = Path(__file__).parents[2]
TESTS = (
    "tests/security/test_auth_tricks.py",
    "tests/server/test_auth.py",
    "tests/server/test_browser.py",
    "tests/server/test_json_body.py",
    "tests/server/test_http_protocol.py",
    "tests/server/test_sampling_field.py",
    "tests/server/test_field.py",
    "tests/core/test_sampling_params.py",
    "tests/core/test_messages.py",
    "tests/engine/test_request.py",
    "tests/engine/test_limits.py",
    "tests/attacks/test_config.py",
)


def test_the_checks_hold_under_oo() -> None:
    # pytest writes the tests' own asserts as code, so that they are kept; it warns that others are not.
    options = ["-q", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestConfigWarning", "-k", "not constant_time"]
    command = [sys.executable, "-OO", "-m", "pytest", *options, *TESTS]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=200, check=False)
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-1000:]
    check = ["-c", "assert False, 'asserts are gone'"]
    assert subprocess.run([sys.executable, "-OO", *check], check=False, timeout=20).returncode == 0
