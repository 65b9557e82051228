"""Stacked parts have the shape of one tensor."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from pelton.checkpoint.weight import Conversion, Tensor, Weight

pytestmark = pytest.mark.unit


def test_the_shape_is_that_of_the_stack() -> None:
    q = Tensor("q", (8, 32), "Q4_0", np.zeros((8, 18), np.uint8))
    v = Tensor("v", (2, 32), "Q8_0", np.zeros((2, 34), np.uint8))
    assert Weight("qv", (q, v)).shape == (10, 32)
    assert Weight("q", (q,)).shape == (8, 32)


def test_pieces_are_rows_of_the_parts_wherever_the_parts_end() -> None:
    """Two pieces of six rows: the second part lies in both, the others in one each."""
    rows = np.arange(12, dtype=np.uint8).reshape(12, 1)
    ends = [0, 5, 8, 12]
    parts = tuple(
        Tensor(f"t{i}", (end - first, 1), "U8", rows[first:end]) for i, (first, end) in enumerate(pairwise(ends))
    )
    pieces = Weight("w", parts).pieces(2)
    assert [piece.name for piece in pieces] == ["w[0]", "w[1]"]
    assert [[part.shape for part in piece.parts] for piece in pieces] == [[(5, 1), (1, 1)], [(2, 1), (4, 1)]]
    assert pieces[0].parts[0] is parts[0]
    numbers = [np.concatenate([part.payload for part in piece.parts]).ravel().tolist() for piece in pieces]
    assert numbers == [[0, 1, 2, 3, 4, 5], [6, 7, 8, 9, 10, 11]]


def test_pieces_of_converted_rows_are_converted_when_they_are_read() -> None:
    made: list[int] = []

    def make() -> np.ndarray[Any, np.dtype[np.uint8]]:
        made.append(1)
        return np.arange(4, dtype=np.uint8).reshape(4, 1)

    first, second = Weight("w", (Tensor("t", (4, 1), "U8", Conversion((), "recipe", make)),)).pieces(2)
    assert not made
    assert first.parts[0].payload.ravel().tolist() == [0, 1]
    assert second.parts[0].payload.ravel().tolist() == [2, 3]


def test_rows_that_can_be_made_alone_are() -> None:
    rows = np.arange(8, dtype=np.uint8)[:, None]
    asked: list[tuple[int, int]] = []

    def make_rows(begin: int, end: int) -> np.ndarray:
        asked.append((begin, end))
        return rows[begin:end]

    def make() -> np.ndarray:
        raise AssertionError("not all rows are wanted")

    tensor = Tensor("t", (8, 1), "U8", Conversion((), "recipe", make, make_rows))
    part = tensor.rows(2, 7, "a").rows(1, 3, "b")
    assert part.payload.tolist() == [[3], [4]]
    assert asked == [(3, 5)]
    assert isinstance(part.stored, Conversion)
    assert part.stored.recipe == "recipe[2:7][1:3]"
