"""Documents keep their promises: links lead somewhere, Python examples parse and name things that exist."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")
PYTHON = re.compile(r"```python\n(.*?)```", re.DOTALL)

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(path: Path) -> None:
    targets = [t for t in LINK.findall(path.read_text(encoding="utf-8")) if "://" not in t]
    missing = [target for target in targets if not (path.parent / target).exists()]
    assert not missing, f"{path.name} links to {missing}"


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: str(p.relative_to(ROOT)))
def test_python_examples_parse_and_their_imports_resolve(path: Path) -> None:
    for block in PYTHON.findall(path.read_text(encoding="utf-8")):
        code = block if not block.lstrip().startswith('"') or "\n\n" in block else f"x = {{{block}}}"
        for node in ast.walk(ast.parse(code)):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("pelton"):
                module = importlib.import_module(node.module)
                missing = [a.name for a in node.names if getattr(module, a.name, None) is None]
                assert not missing, f"{path.name}: {node.module} has no {missing}"


def test_architecture_is_short_enough_to_be_read() -> None:
    assert len((ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").splitlines()) <= 250
