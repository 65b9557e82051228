"""Every known attack has a test, or a reason why there is none."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from tests.security.table import NUMBERS, TABLE

pytestmark = pytest.mark.unit
ROOT = Path(__file__).parents[2]


def test_no_attack_is_left_out() -> None:
    assert sorted(TABLE) == [f"S-{number:02d}" for number in NUMBERS]
    assert all(bool(row.tests) != bool(row.reason) for row in TABLE.values())


@pytest.mark.parametrize("number", TABLE)
def test_the_tests_are_there(number: str) -> None:
    for name in TABLE[number].tests:
        path, _, function = name.partition("::")
        assert (ROOT / path).exists(), name
        if function:
            tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
            assert function in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, name
