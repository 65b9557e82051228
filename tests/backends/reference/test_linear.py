"""Products and rows, written as loops."""

import numpy as np
import pytest

from pelton.backends.reference.elementwise import gated
from pelton.backends.reference.linear import embedding, linear, linear_add, linear_gated

pytestmark = pytest.mark.unit

RNG = np.random.default_rng(0)
X, WEIGHT, BIAS = RNG.normal(size=(3, 5)), RNG.normal(size=(4, 5)), RNG.normal(size=4)


@pytest.mark.parametrize("bias", [BIAS, None])
def test_linear(bias):
    for t, row in enumerate(linear(X, WEIGHT, bias)):
        for n, y in enumerate(row):
            assert y == pytest.approx(sum(X[t, k] * WEIGHT[n, k] for k in range(5)) + (0 if bias is None else bias[n]))


def test_embedding():
    np.testing.assert_array_equal(embedding(np.array([3, 0, 3], np.int32), WEIGHT), WEIGHT[[3, 0, 3]])


def test_fused_ones_are_their_parts():
    other = RNG.normal(size=(3, 4))
    np.testing.assert_array_equal(linear_add(X, other, WEIGHT, BIAS), linear(X, WEIGHT, BIAS) + other)
    np.testing.assert_array_equal(
        linear_gated(X, WEIGHT, BIAS, kind="silu"), gated(linear(X, WEIGHT, BIAS), kind="silu")
    )
