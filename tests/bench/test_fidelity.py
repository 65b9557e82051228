"""Agreement of two readers, against values by hand."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pelton.bench.fidelity import Fidelity, compare_logits, log_softmax, measure_fidelity, windows

pytestmark = pytest.mark.unit


def logits(*rows: list[float]) -> np.ndarray:
    return np.array(rows, np.float32)


def test_log_softmax() -> None:
    expected = [[math.log(0.25), math.log(0.75)], [math.log(0.5), math.log(0.5)]]
    np.testing.assert_allclose(log_softmax(logits([0, math.log(3)], [1000, 1000])), expected, rtol=1e-6)
    assert log_softmax(logits([0, -1e30])).tolist() == [[0, float(np.float32(-1e30))]]


def test_log_softmax_leaves_its_argument_alone() -> None:
    given_TV = logits([1, 2])
    log_softmax(given_TV)
    assert given_TV.tolist() == [[1, 2]]


def test_compare_logits() -> None:
    quarter, half = [0, math.log(3)], [0, 0]
    same_T, kl_T = compare_logits(logits(quarter, quarter, [1, 0]), logits(quarter, half, quarter))
    assert same_T.tolist() == [True, False, False]
    e = math.e
    p = (e / (1 + e), 1 / (1 + e))
    by_hand = [
        0.0,
        0.25 * math.log(0.25 / 0.5) + 0.75 * math.log(0.75 / 0.5),
        p[0] * math.log(p[0] / 0.25) + p[1] * math.log(p[1] / 0.75),
    ]
    assert kl_T.tolist() == pytest.approx(by_hand, abs=1e-7)


@pytest.mark.parametrize(
    ("size", "prefix", "cut"),
    [
        (2, [], [[1, 2], [3, 4], [5]]),
        (3, [9], [[9, 1, 2], [9, 3, 4], [9, 5]]),
        (5, [], [[1, 2, 3, 4, 5]]),
        (8, [9], [[9, 1, 2, 3, 4, 5]]),
    ],
)
def test_windows(size: int, prefix: list[int], cut: list[list[int]]) -> None:
    assert list(windows([1, 2, 3, 4, 5], size, prefix)) == cut


@given(st.lists(st.integers(0, 9)), st.integers(1, 5), st.lists(st.integers(0, 9), max_size=3))
def test_windows_hold_every_token_once(token_ids: list[int], room: int, prefix: list[int]) -> None:
    pieces = list(windows(token_ids, len(prefix) + room, prefix))
    assert [t for piece in pieces for t in piece[len(prefix) :]] == token_ids
    assert all(piece[: len(prefix)] == prefix and len(piece) <= len(prefix) + room for piece in pieces)


def test_measure_fidelity() -> None:
    """One reader prefers token 1 after odd tokens, the other always token 0; both are sure of it by a factor of 3."""
    seen: list[list[int]] = []
    done: list[int] = []

    def reader(ids: list[int]) -> np.ndarray:
        seen.append(ids)
        return logits(*([0, math.log(3)] if token % 2 else [math.log(3), 0] for token in ids))

    def flat(ids: list[int]) -> np.ndarray:
        return logits(*([math.log(3), 0] for _ in ids))

    found = measure_fidelity(reader, flat, [1, 2, 4, 6], window=3, prefix=[0], progress=done.append)
    assert seen == [[0, 1, 2], [0, 4, 6]]
    assert done == [3, 6]
    one = 0.5 * math.log(3)  # KL of (1/4, 3/4) from (3/4, 1/4)
    assert found == Fidelity(6, pytest.approx(5 / 6), pytest.approx(one / 6), pytest.approx(one))
