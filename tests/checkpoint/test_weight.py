"""Stacked parts have the shape of one tensor."""

from __future__ import annotations

import numpy as np
import pytest

from pelton.checkpoint.weight import Tensor, Weight

pytestmark = pytest.mark.unit


def test_the_shape_is_that_of_the_stack() -> None:
    q = Tensor("q", (8, 32), "Q4_0", np.zeros((8, 18), np.uint8))
    v = Tensor("v", (2, 32), "Q8_0", np.zeros((2, 34), np.uint8))
    assert Weight("qv", (q, v)).shape == (10, 32)
    assert Weight("q", (q,)).shape == (8, 32)
