"""Each rule of the sampler alone, their order, and the distribution of what is drawn."""

import math

import numpy as np
import pytest
from tests.steps import sampling_inputs

from pelton.backends.reference.philox import uniform
from pelton.backends.reference.sampling import sample

pytestmark = pytest.mark.unit

LOGITS = np.array([1.0, 3.0, 3.0, -1.0, 2.0], np.float32)


def chosen(logits, **settings):
    logits = np.atleast_2d(np.asarray(logits, np.float32))
    return sample(logits, sampling_inputs(len(logits), **settings), want_logits=False).token_ids_S.tolist()


def drawn(logits, count=400, **settings):
    """Which ids come out for `count` positions."""
    rows = np.tile(np.asarray(logits, np.float32), (count, 1))
    settings.setdefault("temperature", 1.0)
    return chosen(rows, position=np.arange(count), **settings)


def test_greedy_takes_the_lowest_of_equal_ids():
    assert chosen(LOGITS) == [1]


def test_bias_adds_and_bans():
    assert chosen(LOGITS, bias=[{0: 2.5}]) == [0]
    assert chosen(LOGITS, bias=[{1: -math.inf, 2: -math.inf}]) == [4]


def test_nothing_left_or_not_finite_gives_no_token():
    assert chosen(LOGITS, bias=[dict.fromkeys(range(5), -math.inf)]) == [-1]
    assert chosen(LOGITS, bias=[dict.fromkeys(range(5), -math.inf)], temperature=1.0) == [-1]
    for poison in (np.nan, np.inf, -np.inf):
        assert chosen([[1.0, poison], [0.0, 1.0]]) == [-1, 1]


def test_no_token_has_no_logprobs():
    result = sample(np.array([[np.nan, 1]], np.float32), sampling_inputs(1, num_logprobs=2), want_logits=False)
    assert np.isnan(result.logprob_S[0])
    assert result.top_ids_SL.tolist() == [[-1, -1]]


def test_repetition_divides_positive_and_multiplies_negative_logits_of_the_whole_history_once():
    assert chosen([[2.0, 1.5]], history=[[0, 0]], num_prompt=2, repetition=1.3) == [0]
    assert chosen([[2.0, 1.5]], history=[[0, 0]], num_prompt=2, repetition=1.4) == [1]
    assert chosen([[-1.0, -1.5]], history=[[0]], repetition=1.6) == [1]


def test_frequency_counts_and_presence_does_not_and_both_leave_the_prompt_alone():
    history = [[0, 0, 0]]
    assert chosen([[2.0, 1.0]], history=history, num_prompt=3, frequency=2.0, presence=2.0) == [0]
    assert chosen([[2.0, 1.0]], history=history, num_prompt=1, frequency=0.4) == [0]
    assert chosen([[2.0, 1.0]], history=history, num_prompt=1, frequency=0.6) == [1]
    assert chosen([[2.0, 1.0]], history=history, num_prompt=1, presence=0.6) == [0]
    assert chosen([[2.0, 1.0]], history=history, num_prompt=1, presence=1.1) == [1]


def test_repetition_comes_before_frequency():
    # 2 / 2 - 1 = 0 loses against 0.25; (2 - 1) / 2 = 0.5 would win.
    assert chosen([[2.0, 0.25]], history=[[0]], repetition=2.0, frequency=1.0) == [1]


def test_history_and_bias_belong_to_their_rows():
    rows = [[2.0, 1.0]] * 3
    assert chosen(rows, history=[[], [0], []], presence=1.5) == [0, 1, 0]
    assert chosen(rows, bias=[{}, {}, {1: 2.0}]) == [0, 0, 1]


def test_top_k_breaks_ties_at_the_threshold_by_id():
    assert set(drawn(LOGITS, top_k=1)) == {1}
    assert set(drawn(LOGITS, top_k=2)) == {1, 2}
    assert set(drawn([0.0, 0.0, 0.0, 0.0], top_k=3)) == {0, 1, 2}


def test_min_p_is_relative_to_the_most_likely():
    logits = np.log([0.5, 0.3, 0.15, 0.05])
    assert set(drawn(logits, min_p=0.2)) == {0, 1, 2}
    assert set(drawn(logits, min_p=1.0)) == {0}


def test_top_p_keeps_the_smallest_prefix_that_reaches_it():
    logits = np.log([0.15, 0.5, 0.3, 0.05])
    assert set(drawn(logits, top_p=0.49)) == {1}
    assert set(drawn(logits, top_p=0.51)) == {1, 2}
    assert set(drawn(logits, top_p=0.9)) == {0, 1, 2}


def test_top_p_counts_what_min_p_and_top_k_left():
    logits = np.log([0.4, 0.3, 0.2, 0.1])
    assert set(drawn(logits, top_k=2, top_p=0.6)) == {0, 1}  # 0.4 of 0.7 is 0.571
    assert set(drawn(logits, top_k=2, top_p=0.5)) == {0}
    assert set(drawn(logits, min_p=0.7, top_p=0.6)) == {0, 1}


def test_temperature_comes_before_min_p():
    logits = np.log([0.8, 0.2])
    assert set(drawn(logits, min_p=0.3, temperature=1.0)) == {0}
    assert set(drawn(logits, min_p=0.3, temperature=2.0)) == {0, 1}


def test_draw_is_the_inverse_of_the_cumulative_distribution():
    probabilities = np.array([0.1, 0.2, 0.3, 0.4])
    for position in range(50):
        expected = int(np.searchsorted(np.cumsum(probabilities), uniform(7, position), side="right"))
        assert chosen(np.log(probabilities), temperature=1.0, seed=7, position=position) == [expected]


def test_draws_follow_the_softmax_at_every_temperature():
    logits = np.array([0.3, -1.0, 2.0, 0.0, 1.0, -2.0])
    for temperature in (0.5, 1.0, 1.7):
        expected = np.exp(logits / temperature)
        expected *= 4000 / expected.sum()
        counts = np.bincount(drawn(logits, 4000, temperature=temperature, seed=3), minlength=6)
        assert ((counts - expected) ** 2 / expected).sum() < 25.7  # 0.9999 quantile, 5 degrees of freedom


def test_a_row_does_not_depend_on_its_neighbours():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(8, 100)).astype(np.float32)
    together = chosen(logits, temperature=1.0, seed=np.arange(8), position=np.arange(8) + 5)
    alone = [chosen(logits[i], temperature=1.0, seed=i, position=i + 5)[0] for i in range(8)]
    assert together == alone
    assert len(set(together)) > 1


def test_logprobs_are_of_the_raw_logits_and_ties_go_to_lower_ids():
    sampling = sampling_inputs(
        3, num_logprobs=[3, 0, -1], bias=[{3: 50.0}] * 3, temperature=[0.7, 0.0, 0.0], seed=[0, 0, 0]
    )
    result = sample(np.tile(LOGITS, (3, 1)), sampling, want_logits=True)
    exact = LOGITS.astype(np.float64) - np.log(np.exp(LOGITS.astype(np.float64)).sum())
    assert result.token_ids_S.tolist() == [3, 3, 3]
    np.testing.assert_allclose(result.logprob_S[:2], [exact[3]] * 2, rtol=1e-6)
    assert np.isnan(result.logprob_S[2])
    assert result.top_ids_SL.tolist() == [[1, 2, 4], [-1] * 3, [-1] * 3]
    np.testing.assert_allclose(result.top_logprobs_SL[0], exact[[1, 2, 4]], rtol=1e-6)
    np.testing.assert_array_equal(result.logits_SV, np.tile(LOGITS, (3, 1)))


def test_more_logprobs_than_tokens_are_padded():
    result = sample(LOGITS[None, :2], sampling_inputs(1, num_logprobs=4), want_logits=False)
    assert result.top_ids_SL.tolist() == [[1, 0, -1, -1]]
