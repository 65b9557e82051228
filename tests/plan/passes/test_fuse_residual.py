"""linear -> add is fused where it may be, nowhere else, and computes the same bits."""

import pytest
from hypothesis import given, settings
from tests.plan.passes.plans import assert_same, plans, ref
from tests.tiny_plans import LAYERS, MODELS, tiny_plan

from pelton.plan import Recorder, ops
from pelton.plan.passes import fuse_residual

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("name", MODELS)
def test_models_compute_the_same(name):
    tiny = tiny_plan(name)
    fused = fuse_residual(tiny.plan)
    assert_same(tiny.plan, fused, tiny)
    count = sum(node.op == "linear_add" for node in fused.nodes)
    # The norms of Gemma stand between the linear of the attention and the sum; a mixture of experts is no linear.
    assert count == (LAYERS if name in ("gemma_like", "moe_like") else 2 * LAYERS)


@given(plans())
@settings(max_examples=60, deadline=None)
def test_any_plan_computes_the_same(tiny):
    fused = fuse_residual(tiny.plan)
    assert_same(tiny.plan, fused, tiny)
    assert fuse_residual(fused) == fused


def record(build):
    p = Recorder()
    x = ops.embedding(p, p.token_ids, ref("embed"))
    return [node.op for node in fuse_residual(p.plan(build(p, x))).nodes]


def test_either_operand_may_be_the_linear():
    assert record(lambda p, x: ops.add(p, ops.linear(p, x, ref("square")), x)) == ["embedding", "linear_add"]
    assert record(lambda p, x: ops.add(p, x, ops.linear(p, x, ref("square")))) == ["embedding", "linear_add"]


def test_of_two_linears_one_is_taken_in():
    def build(p, x):
        return ops.add(p, ops.linear(p, x, ref("square")), ops.linear(p, x, ref("other_square")))

    assert record(build) == ["embedding", "linear", "linear_add"]


def test_a_linear_that_others_read_stays():
    def twice(p, x):
        y = ops.linear(p, x, ref("square"))
        return ops.add(p, y, y)

    def again(p, x):
        y = ops.linear(p, x, ref("square"))
        return ops.add(p, ops.scale(p, y, 2.0), ops.add(p, x, y))

    assert record(twice) == ["embedding", "linear", "add"]
    assert "linear_add" not in record(again)


def test_an_output_is_read_from_outside():
    p = Recorder()
    x = ops.embedding(p, p.token_ids, ref("embed"))
    y = ops.linear(p, x, ref("square"))
    ops.add(p, x, y)
    assert [node.op for node in fuse_residual(p.plan(y)).nodes] == ["embedding", "linear"]
