"""Both norms against their formulas, row by row."""

import math

import numpy as np
import pytest

from pelton.backends.reference.norm import layer_norm, rms_norm

pytestmark = pytest.mark.unit

X = np.random.default_rng(0).normal(0.5, 2.0, (3, 4, 5))
WEIGHT, BIAS = np.array([1.0, -2.0, 0.5, 3.0, 0.0]), np.array([0.1, 0.2, 0.3, 0.4, 0.5])


@pytest.mark.parametrize("weight", [WEIGHT, None])
def test_rms_norm(weight):
    given = rms_norm(X, weight, eps=0.1)
    for row, y in zip(X.reshape(-1, 5), given.reshape(-1, 5), strict=True):
        root = math.sqrt(sum(v * v for v in row) / 5 + 0.1)
        np.testing.assert_allclose(
            y, [v / root * w for v, w in zip(row, np.ones(5) if weight is None else weight, strict=True)]
        )


@pytest.mark.parametrize("bias", [BIAS, None])
def test_layer_norm(bias):
    given = layer_norm(X, WEIGHT, bias, eps=0.1)
    for row, y in zip(X.reshape(-1, 5), given.reshape(-1, 5), strict=True):
        mean = sum(row) / 5
        root = math.sqrt(sum((v - mean) ** 2 for v in row) / 5 + 0.1)
        shift = np.zeros(5) if bias is None else bias
        np.testing.assert_allclose(
            y, [(v - mean) / root * w + b for v, w, b in zip(row, WEIGHT, shift, strict=True)], atol=1e-12
        )


def test_the_variance_survives_a_large_mean():
    x = np.array([[1000.0, 1000.1, 999.9, 1000.0]], np.float32)
    y = layer_norm(x, np.ones(4, np.float32), None, eps=0.0)
    np.testing.assert_allclose(y, [[0, 2**0.5, -(2**0.5), 0]], atol=2e-3)
