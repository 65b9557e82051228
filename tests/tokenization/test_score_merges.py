"""Merges from scores."""

import gc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pelton.tokenization.score_merges import collector_paused, compute_merges

pytestmark = pytest.mark.unit


@given(st.dictionaries(st.text("ab", min_size=1, max_size=5), st.floats(-9, 0), max_size=20))
def test_every_cut_of_every_piece_in_order_of_score(scores: dict[str, float]) -> None:
    merges = compute_merges(list(scores), list(scores.values()))
    cuts = {(p[:n], p[n:]) for p in scores for n in range(1, len(p)) if p[:n] in scores and p[n:] in scores}
    assert set(merges) == cuts
    assert len(merges) == len(cuts)
    ranks = [scores[left + right] for left, right in merges]
    assert ranks == sorted(ranks, reverse=True)


@pytest.mark.parametrize("is_enabled", [True, False])
def test_collector_is_left_as_it_was(is_enabled: bool) -> None:
    was_enabled = gc.isenabled()
    try:
        (gc.enable if is_enabled else gc.disable)()
        with collector_paused():
            assert not gc.isenabled()
        assert gc.isenabled() is is_enabled
    finally:
        (gc.enable if was_enabled else gc.disable)()
