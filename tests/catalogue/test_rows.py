"""The catalogue of public failures is whole, and every test that it names is there."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

pytestmark = pytest.mark.unit
ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "tests" / "catalogue" / "rows").glob("*.yaml"))
ROWS: dict[str, dict[str, Any]] = {}
for file in FILES:
    ROWS |= yaml.safe_load(file.read_text(encoding="utf-8"))["rows"]


@cache
def functions(path: str) -> set[str]:
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_no_group_is_left_out() -> None:
    assert [path.name[0].upper() for path in FILES] == list("ABCDEFGHIJKLMN")
    assert len(ROWS) >= 143
    assert all(name[0].lower() == path.name[0] for path in FILES for name in yaml.safe_load(path.read_text())["rows"])


@pytest.mark.parametrize("name", ROWS)
def test_a_row_says_what_stands_against_it(name: str) -> None:
    row = ROWS[name]
    assert set(row) <= {"what", "seen", "does", "tests", "not_applicable", "not_yet"}
    assert row["what"].endswith(".")
    assert row["seen"]
    reasons = [key for key in ("not_applicable", "not_yet") if key in row]
    assert len(reasons) + bool(row.get("does")) == 1
    assert not row.get("does") or row["tests"]
    for test in row.get("tests", []):
        path, _, function = test.partition("::")
        assert function in functions(path), f"{name}: there is no {test}"


def test_every_test_of_the_catalogue_belongs_to_a_row() -> None:
    named = {test for row in ROWS.values() for test in row.get("tests", [])}
    here = Path(__file__).parent
    for path in here.glob("test_*.py"):
        if path.name != "test_rows.py":
            own = {f"tests/catalogue/{path.name}::{name}" for name in functions(f"tests/catalogue/{path.name}")}
            tests = {name for name in own if "::test_" in name}
            assert tests <= named, f"in no row: {sorted(tests - named)}"
