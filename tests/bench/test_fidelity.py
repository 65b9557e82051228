"""Agreement of two readers, against values by hand."""

import math
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pelton.bench.fidelity import Fidelity, Surprise, compare_rows, log_softmax, measure_fidelity, windows

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


def test_compare_rows() -> None:
    quarter, half = [0, math.log(3)], [0, 0]
    same_T, kl_T = compare_rows(
        log_softmax(logits(quarter, quarter, [1, 0])), log_softmax(logits(quarter, half, quarter))
    )
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


def test_surprise() -> None:
    """Two tokens at 1/4 and 3/4, none for the last row: exp of the mean of log 4 and log 4/3."""
    surprise = Surprise()
    rows_TV = log_softmax(logits(*[[0, math.log(3)]] * 3))
    surprise.add(rows_TV, [0, 1])
    assert surprise.num_tokens == 2
    assert surprise.perplexity == pytest.approx(math.sqrt(4 * 4 / 3))
    assert Surprise().perplexity == 1


@pytest.mark.parametrize("piece", [1, 2, 5])
def test_measure_fidelity(piece: int) -> None:
    """One reader prefers token 1 after odd tokens, the other always token 0; both are sure of it by a factor of 3."""
    seen: list[list[int]] = []
    positions: list[None] = []

    def cut(rows_TV: np.ndarray) -> Iterator[np.ndarray]:
        for start in range(0, len(rows_TV), piece):
            yield rows_TV[start : start + piece]

    def reader(ids: list[int]) -> Iterator[np.ndarray]:
        seen.append(ids)
        return cut(logits(*([0, math.log(3), -1e9] if token == 1 else [math.log(3), 0, -1e9] for token in ids)))

    def flat(ids: list[int]) -> Iterator[np.ndarray]:
        return cut(logits(*([math.log(3), 0, -1e9] for _ in ids)))

    found = measure_fidelity(
        {"a": reader, "b": flat},
        flat,
        [1, 0, 1, 1],
        window=3,
        prefix=[0],
        on_position=lambda: positions.append(None),
    )
    assert seen == [[0, 1, 0], [0, 1, 1]]
    assert len(positions) == 6
    kl = 0.5 * math.log(3)  # of (1/4, 3/4) from (3/4, 1/4)
    flat_perplexity = (4 * (4 / 3) * 4 * 4) ** (1 / 4)  # predicted are 1, 0, 1, 1
    actual_perplexity = (4 * 4 * 4 * (4 / 3)) ** (1 / 4)
    assert found["a"] == Fidelity(
        num_positions=6,
        same_token=pytest.approx(1 / 2),
        mean_kl=pytest.approx(kl / 2),
        max_kl=pytest.approx(kl),
        perplexity=pytest.approx(actual_perplexity),
        reference_perplexity=pytest.approx(flat_perplexity),
    )
    assert (found["b"].same_token, found["b"].max_kl) == (1, 0)
    assert found["b"].perplexity == found["b"].reference_perplexity


def test_pieces_must_match() -> None:
    def whole(ids: list[int]) -> Iterator[np.ndarray]:
        yield logits(*([0, 1] for _ in ids))

    def halves(ids: list[int]) -> Iterator[np.ndarray]:
        for _ in ids:
            yield logits([0, 1])

    with pytest.raises(ValueError, match=r"is (longer|shorter) than|broadcast"):
        measure_fidelity({"a": halves}, whole, [1, 0], window=4, prefix=[])
