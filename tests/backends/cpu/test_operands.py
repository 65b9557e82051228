"""Rows of what, and weights that must be there."""

import pytest

from pelton.backends.cpu.operands import axis_of, weight_of
from pelton.errors import BackendError
from pelton.plan import Node, Value, WeightRef

pytestmark = pytest.mark.cpu


def test_values_are_rows_of_tokens_or_of_logits():
    assert axis_of(Value(3, ("T", 4))) == "T"
    assert axis_of(Value(3, ("S", 4))) == "S"
    with pytest.raises(BackendError, match="has no rows of tokens"):
        axis_of(Value(3, (5, 4)))


def test_a_weight_is_there():
    ref = WeightRef("w", (2, 3))
    node = Node("linear", (), (ref, None), (), ())
    assert weight_of(node, 0) is ref
    with pytest.raises(AssertionError, match="linear: weight 1 is required"):
        weight_of(node, 1)
