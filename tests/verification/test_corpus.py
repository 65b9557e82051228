"""The corpus is large, has everything in it, and is the same every time."""

from __future__ import annotations

import pytest

from pelton.verification.corpus import list_runs, list_texts

pytestmark = pytest.mark.unit
PIECES = [f" word{i}" for i in range(900)]


def test_texts_are_thousands_and_the_same_every_time() -> None:
    texts = list_texts(PIECES, ["<|end|>", "<tool>"])
    assert texts == list_texts(PIECES, ["<|end|>", "<tool>"])
    assert 3000 <= len(texts) <= 5000
    assert len(texts) == len(set(texts))
    for text in ("<|end|><|end|>", "a<tool>b", "x\t\t\ty", "777777777777", "Tim's is", " " * 40):
        assert text in texts
    assert max(map(len, texts)) == 10_000


def test_runs_are_ids_of_the_vocabulary() -> None:
    runs = list(list_runs(50))
    assert runs == list(list_runs(50))
    assert {id_ for run in runs for id_ in run} == set(range(50))
