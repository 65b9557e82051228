"""What nobody reads goes; what is read stays, in its order."""

import pytest
from hypothesis import given, settings
from tests.plan.passes.plans import assert_same, plans, ref
from tests.tiny_plans import MODELS, tiny_plan

from pelton.plan import Plan, Recorder, ops
from pelton.plan.passes import drop_dead_nodes

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("name", MODELS)
def test_models_have_none(name):
    plan = tiny_plan(name).plan
    assert drop_dead_nodes(plan) == plan


@given(plans())
@settings(max_examples=60, deadline=None)
def test_any_plan_computes_the_same(tiny):
    live = drop_dead_nodes(tiny.plan)
    assert_same(tiny.plan, live, tiny)
    assert drop_dead_nodes(live) == live
    read = {value.id for node in live.nodes for value in node.inputs} | {live.output.id}
    assert all(any(value.id in read for value in node.outputs) for node in live.nodes)


def test_a_dead_chain_goes_as_a_whole_and_a_split_with_one_live_piece_stays():
    p = Recorder()
    x = ops.embedding(p, p.token_ids, ref("embed"))
    ops.scale(p, ops.scale(p, x, 2.0), 3.0)
    piece, _ = ops.split(p, x, (2, 4))
    plan: Plan = p.plan(piece)
    assert [node.op for node in drop_dead_nodes(plan).nodes] == ["embedding", "split"]
