"""Each function against its formula, number by number, in Python floats."""

import math

import numpy as np
import pytest

from pelton.backends.reference.elementwise import ACTIVATIONS, activation, add, gated, scale, softcap

pytestmark = pytest.mark.unit

POINTS = [-90.0, -7.5, -1.0, -0.2, 0.0, 1e-8, 0.3, 1.0, 2.5, 7.0, 90.0]
FORMULAS = {
    "silu": lambda x: x / (1 + math.exp(-x)) if x > -80 else 0.0,
    "gelu": lambda x: x * 0.5 * math.erfc(-x / math.sqrt(2)),
    "gelu_tanh": lambda x: 0.5 * x * (1 + math.tanh(0.7978845608028654 * (x + 0.044715 * x**3))),
    "relu": lambda x: max(x, 0.0),
    "relu2": lambda x: max(x, 0.0) ** 2,
}


@pytest.mark.parametrize("kind", FORMULAS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_activation(kind, dtype):
    given = activation(np.array(POINTS, dtype), kind=kind)
    assert given.dtype == dtype
    tolerance = 1e-6 if dtype is np.float32 else 1e-13
    np.testing.assert_allclose(given, [FORMULAS[kind](x) for x in POINTS], rtol=tolerance, atol=tolerance)


def test_every_kind_is_tested():
    assert set(FORMULAS) == set(ACTIVATIONS)


def test_gated_takes_the_first_half_as_gate():
    x = np.array([[1.0, -2.0, 10.0, 100.0]])
    np.testing.assert_allclose(gated(x, kind="relu"), [[10.0, 0.0]])
    np.testing.assert_allclose(gated(x, kind="silu"), [[10 * FORMULAS["silu"](1.0), 100 * FORMULAS["silu"](-2.0)]])


def test_arithmetic_keeps_the_dtype():
    x = np.array([1.0, -3.0], np.float32)
    assert add(x, x).tolist() == [2, -6]
    assert scale(x, factor=0.5).tolist() == [0.5, -1.5]
    np.testing.assert_allclose(softcap(x, cap=2.0), [2 * math.tanh(0.5), 2 * math.tanh(-1.5)], rtol=1e-6)
    assert {add(x, x).dtype, scale(x, factor=0.1).dtype, softcap(x, cap=2.0).dtype} == {np.dtype(np.float32)}
