"""Sizes count elements and bytes."""

import pytest

from pelton.plan import Node, Value, WeightRef
from pelton.plan.op_spec import Cost, Sizes, elementwise, view

pytestmark = pytest.mark.unit

SIZES = Sizes(requests=((0, 3), (10, 1)), num_logits_rows=2, weight_bytes={"w": 70}, value_bytes=2)
NODE = Node("op", (Value(0, ("T", 5)),), (WeightRef("w", (5,)), None), (), (Value(1, ("S", 5)),))


def test_symbolic_axes_are_those_of_the_step():
    assert SIZES.num_tokens == 4
    assert SIZES.num_elements(Value(0, ("T", 5))) == 20
    assert SIZES.num_elements(Value(0, ("S", 2, 3))) == 12


def test_bytes_of_values_and_weights():
    assert SIZES.moved_bytes(NODE) == (20 + 10) * 2 + 70
    assert elementwise(3)(NODE, SIZES) == Cost(130, 30)
    assert view(NODE, SIZES) == Cost()


def test_costs_add():
    assert Cost(1, 2) + Cost(3, 4) == Cost(4, 6)
