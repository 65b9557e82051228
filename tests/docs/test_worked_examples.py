"""Sessions in the documents give what they say, and the matmul that is followed is the one that the kernels compute."""

from __future__ import annotations

import doctest
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pelton.backends.cpu import _native

ROOT = Path(__file__).parents[2]
SESSION = re.compile(r"```pycon\n(.*?)```", re.DOTALL)
MATMUL = ROOT / "docs" / "concepts" / "matmul.md"
DOCUMENTS = [path for path in sorted((ROOT / "docs").rglob("*.md")) if SESSION.search(path.read_text(encoding="utf-8"))]


def run_session(path: Path) -> dict[str, Any]:
    """The names that the sessions of a document leave, once each of their lines gave what it says."""
    text = "\n".join(SESSION.findall(path.read_text(encoding="utf-8")))
    example = doctest.DocTestParser().get_doctest(text, {}, path.name, str(path), 0)
    report: list[str] = []
    result = doctest.DocTestRunner(verbose=False).run(example, out=report.append, clear_globs=False)
    assert result.attempted > 0
    assert not result.failed, "".join(report)
    return example.globs


@pytest.mark.unit
@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: str(p.relative_to(ROOT)))
def test_a_session_gives_what_it_says(path: Path) -> None:
    run_session(path)


@pytest.mark.cpu
def test_the_matmul_that_is_followed_is_what_the_kernels_compute() -> None:
    names = run_session(MATMUL)
    y_MN = _native.linear("Q5_0", names["row"], 1, 64, names["x"][None])
    np.testing.assert_allclose(y_MN, [[names["y"]]], rtol=1e-6)


@pytest.mark.cpu
def test_the_lines_that_are_shown_are_what_packing_stores() -> None:
    names = run_session(MATMUL)
    packed = _native.pack("Q5_0", np.repeat(names["row"], 64, axis=0), 64)
    stored = packed[: 5 * 256].reshape(5, 64, 4)
    assert np.array_equal(stored, np.broadcast_to(names["lines"][:, None], stored.shape))
