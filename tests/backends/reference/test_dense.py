"""Parts of several schemes become one array, once."""

import numpy as np
import pytest
from tests.conformance.scheme import random_weight

from pelton.backends.reference.dense import DenseWeights
from pelton.checkpoint.weight import Weight

pytestmark = pytest.mark.unit


def test_parts_are_stacked_in_order_and_kept():
    a, b, c = (np.random.default_rng(i).normal(size=(i + 1, 8)).astype(np.float32) for i in range(3))
    schemes = {"F32": a, "F16": b, "BF16": c}
    parts = tuple(random_weight(s, array, s).parts[0] for s, array in schemes.items())
    dense = DenseWeights({"w": Weight("w", parts)}, np.dtype(np.float64))
    w = dense["w"]
    assert w.dtype == np.float64
    np.testing.assert_array_equal(w[:1], a)
    np.testing.assert_array_equal(w[1:3], b.astype(np.float16))
    np.testing.assert_allclose(w[3:], c, rtol=2**-7)
    assert dense["w"] is w
