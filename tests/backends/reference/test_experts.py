"""Routing and mixtures by hand: who is chosen, what a tie does, and in which order experts are stacked."""

import numpy as np
import pytest

from pelton.backends.reference.experts import experts, route

pytestmark = pytest.mark.unit


def test_softmax_stands_before_the_choice():
    logits_TX = np.log([[1.0, 5.0, 2.0, 2.0]])
    weights_TX = route(logits_TX, num_chosen=2, normalised=False, factor=1.0)
    np.testing.assert_allclose(weights_TX, [[0.0, 0.5, 0.2, 0.0]])
    weights_TX = route(logits_TX, num_chosen=2, normalised=True, factor=3.0)
    np.testing.assert_allclose(weights_TX, [[0.0, 15 / 7, 6 / 7, 0.0]])


def test_of_equal_logits_the_first_are_chosen():
    weights_TX = route(np.zeros((1, 5)), num_chosen=3, normalised=True, factor=1.0)
    np.testing.assert_allclose(weights_TX, [[1 / 3, 1 / 3, 1 / 3, 0.0, 0.0]])


def test_each_expert_has_its_rows_below_those_of_the_one_before():
    """Expert 0 doubles, expert 1 adds up both numbers times seven; gate and up are the identity or a sum."""
    h_TE = np.array([[1.0, 2.0], [3.0, 1.0]])
    gate_up_RE = np.array([[1.0, 0.0], [2.0, 0.0], [1.0, 1.0], [0.0, 7.0]])
    down_RF = np.array([[1.0], [0.0], [0.0], [1.0]])
    weights_TX = np.array([[1.0, 0.5], [0.0, 1.0]])
    y_TE = experts(h_TE, weights_TX, gate_up_RE, down_RF, num_chosen=2, kind="relu")
    np.testing.assert_allclose(y_TE, [[1 * 2, 0.5 * 3 * 14], [0, 4 * 7]])


def test_a_row_with_more_weights_than_it_may_is_an_error():
    with pytest.raises(AssertionError, match="more weights"):
        experts(np.ones((1, 1)), np.ones((1, 2)), np.ones((4, 1)), np.ones((2, 1)), num_chosen=1, kind="silu")
