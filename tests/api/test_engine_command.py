"""What starts the engine must itself start fast."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.unit


def test_the_command_line_of_serve_imports_nothing_heavy():
    code = "import sys, pelton.cli.serve; print(*sys.modules)"
    modules = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    heavy = {"numpy", "tokenizers", "starlette", "uvicorn", "jinja2", "rich", "pelton.api.assemble", "pelton.loading"}
    assert not heavy & set(modules)
