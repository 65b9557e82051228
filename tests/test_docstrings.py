import doctest
import importlib
from pathlib import Path

import pytest

pytestmark = pytest.mark.cpu

SOURCE = Path(__file__).parents[1] / "src"
FILES = sorted(path for path in SOURCE.rglob("*.py") if ">>> " in path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(SOURCE).as_posix())
def test_examples_in_docstrings_run(path: Path):
    module = importlib.import_module(".".join(path.relative_to(SOURCE).with_suffix("").parts))
    result = doctest.testmod(module)
    assert result.attempted > 0
    assert result.failed == 0
