"""Views keep every number in its place."""

import numpy as np
import pytest

from pelton.backends.reference.shape import heads, split

pytestmark = pytest.mark.unit

X = np.arange(24.0).reshape(2, 12)


def test_heads():
    assert heads(X, num_heads=3)[1, 2].tolist() == [20, 21, 22, 23]
    assert heads(X[:0], num_heads=3).shape == (0, 3, 4)


def test_split():
    pieces = split(X, sizes=(3, 8, 1))
    assert [piece.shape for piece in pieces] == [(2, 3), (2, 8), (2, 1)]
    np.testing.assert_array_equal(np.concatenate(pieces, axis=-1), X)
