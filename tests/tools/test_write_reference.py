import importlib.util
from pathlib import Path

import pytest

from pelton import errors

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[2]
spec = importlib.util.spec_from_file_location("write_reference", ROOT / "tools" / "write_reference.py")
assert spec
assert spec.loader
tool = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tool)


@pytest.mark.parametrize("name", tool.PAGES)
def test_pages_are_what_the_code_says(name: str):
    assert (ROOT / name).read_text(encoding="utf-8") == tool.PAGES[name](), "run 'make docs'"


def test_every_error_is_in_the_table_and_in_the_drawing():
    classes = {c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, errors.EngineError)}
    assert {error for error, _ in tool.walk(errors.EngineError)} == classes
    for error in classes - {errors.EngineError}:
        assert f" {error.__name__} " in (errors.__doc__ or "")
