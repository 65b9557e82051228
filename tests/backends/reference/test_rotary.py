"""Turning is a multiplication of complex numbers."""

import cmath

import numpy as np
import pytest

from pelton.backends.reference.rotary import rotary

pytestmark = pytest.mark.unit

X = np.random.default_rng(0).normal(size=(4, 2, 7))
POSITIONS = np.array([0, 3, 100, 7], np.int32)
FREQUENCIES = (1.0, 0.25)


def test_pairs_are_half_the_turning_dimensions_apart():
    given = rotary(X, POSITIONS, inv_freq=FREQUENCIES, attention_factor=1.5)
    for t, position in enumerate(POSITIONS):
        for h in range(2):
            for i, frequency in enumerate(FREQUENCIES):
                z = complex(X[t, h, i], X[t, h, i + 2]) * cmath.exp(1j * position * frequency) * 1.5
                np.testing.assert_allclose(given[t, h, [i, i + 2]], [z.real, z.imag], rtol=1e-12)
    np.testing.assert_array_equal(given[..., 4:], X[..., 4:])


def test_products_depend_on_the_distance_only():
    q, k = X[:1, :1], X[1:2, :1]

    def product(a, b):
        turned = [
            rotary(x, np.array([p], np.int32), inv_freq=FREQUENCIES, attention_factor=1.0) for x, p in ((q, a), (k, b))
        ]
        return float((turned[0] * turned[1]).sum())

    assert product(9, 4) == pytest.approx(product(105, 100))
    assert product(9, 4) != pytest.approx(product(9, 5))
