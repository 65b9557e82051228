"""linear -> gated is fused where nothing else reads the linear, and computes the same bits."""

import pytest
from hypothesis import given, settings
from tests.plan.passes.plans import WIDTH, assert_same, plans, ref
from tests.tiny_plans import LAYERS, MODELS, tiny_plan

from pelton.plan import Recorder, ops
from pelton.plan.passes import fuse_gated, fuse_residual

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("name", MODELS)
def test_models_compute_the_same(name):
    tiny = tiny_plan(name)
    fused = fuse_gated(tiny.plan)
    assert_same(tiny.plan, fused, tiny)
    assert sum(node.op == "linear_gated" for node in fused.nodes) == (0 if name == "gpt2_like" else LAYERS)


@given(plans())
@settings(max_examples=60, deadline=None)
def test_any_plan_computes_the_same(tiny):
    fused = fuse_gated(tiny.plan)
    assert_same(tiny.plan, fused, tiny)
    assert fuse_gated(fused) == fused


@given(plans())
@settings(max_examples=60, deadline=None)
def test_the_order_of_the_passes_does_not_matter(tiny):
    one, two = fuse_gated(fuse_residual(tiny.plan)), fuse_residual(fuse_gated(tiny.plan))
    assert one == two
    assert_same(tiny.plan, one, tiny)


def test_halves_that_are_read_keep_the_linear():
    p = Recorder()
    h = ops.linear(p, ops.embedding(p, p.token_ids, ref("embed")), ref("double"))
    gate, _ = ops.split(p, h, (WIDTH, WIDTH))
    plan = p.plan(ops.add(p, ops.gated(p, h, "silu"), gate))
    assert fuse_gated(plan) == plan
