"""Costs against figures counted by hand."""

import pytest
from tests.tiny_plans import MODELS, tiny_plan

from pelton.plan import Recorder, WeightRef, ops
from pelton.plan.cost import cost_by_op, total_cost
from pelton.plan.op_spec import Cost, Sizes
from pelton.plan.registry import OPS

pytestmark = pytest.mark.unit


def sizes(plan, *requests, rows=1):
    return Sizes(
        requests=requests,
        num_logits_rows=rows,
        weight_bytes={name: 4 * ref.shape[0] * (*ref.shape, 1)[1] for name, ref in plan.weights().items()},
    )


def one(build):
    p = Recorder()
    return p.plan(build(p))


def test_linear_reads_its_weight_once():
    w = WeightRef("w", (7, 5))
    plan = one(lambda p: ops.linear(p, p.value(("T", 5)), w))
    alone, many = (total_cost(plan, sizes(plan, (0, t))) for t in (1, 10))
    assert alone == Cost(4 * (5 + 7 + 35), 2 * 35)
    assert many == Cost(4 * (50 + 70 + 35), 20 * 35)


def test_fused_linears_move_less_than_their_parts():
    w = WeightRef("w", (8, 5))
    x, other = ("T", 5), ("T", 8)
    parts = one(lambda p: ops.add(p, p.value(other), ops.linear(p, p.value(x), w)))
    whole = one(lambda p: ops.linear_add(p, p.value(x), p.value(other), w, None))
    saved = total_cost(parts, sizes(parts, (0, 3))).num_bytes - total_cost(whole, sizes(whole, (0, 3))).num_bytes
    assert saved == 2 * 3 * 8 * 4  # the product is neither written nor read
    parts = one(lambda p: ops.gated(p, ops.linear(p, p.value(x), w), "silu"))
    whole = one(lambda p: ops.linear_gated(p, p.value(x), w, None, "silu"))
    a, b = total_cost(parts, sizes(parts, (0, 3))), total_cost(whole, sizes(whole, (0, 3)))
    assert a.num_bytes - b.num_bytes == 2 * 3 * 8 * 4
    assert a.num_operations == b.num_operations


@pytest.mark.parametrize(("window", "seen", "read"), [(None, 11 + 12 + 5, 12 + 5), (3, 9, 4 + 3), (100, 28, 17)])
def test_attention_counts_what_each_token_sees(window, seen, read):
    p = Recorder()
    q, k = p.value(("T", 6, 4)), p.value(("T", 2, 4))
    plan = p.plan(ops.attention(p, q, k, k, 0, scale=1.0, window=window))
    cost = total_cost(plan, sizes(plan, (10, 2), (4, 1), (9, 0)))
    assert cost.num_operations == seen * 6 * (4 + 4) * 2
    values = 3 * (24 + 8 + 8 + 24) * 4
    assert cost.num_bytes == values + (3 + read) * 2 * 8 * 4


@pytest.mark.parametrize(("num_tokens", "num_read"), [(1, 2), (3, 6), (7, 8)])
def test_experts_are_read_at_most_as_often_as_they_are_chosen(num_tokens, num_read):
    p = Recorder()
    h, w = p.value(("T", 5)), p.value(("T", 8))
    gate_up, down = WeightRef("up", (8 * 2 * 3, 5)), WeightRef("down", (8 * 5, 3))
    plan = p.plan(ops.experts(p, h, w, gate_up, down, num_chosen=2, kind="silu"))
    cost = total_cost(plan, sizes(plan, (0, num_tokens)))
    assert cost.num_bytes == 4 * (num_tokens * (5 + 8 + 5) + num_read * 3 * 3 * 5)
    assert cost.num_operations == num_tokens * 2 * (6 * 5 * 3 + 9 * 3 + 2 * 5)


def test_only_the_rows_that_are_used_are_moved():
    w = WeightRef("w", (1000, 5))
    plan = one(lambda p: ops.select_rows(p, ops.embedding(p, p.token_ids, w)))
    costs = cost_by_op(plan, sizes(plan, (0, 8), rows=2))
    assert costs == {"embedding": Cost(8 * 5 * 4 * 2), "select_rows": Cost(2 * 2 * 5 * 4)}


def test_views_are_free():
    plan = one(lambda p: ops.heads(p, ops.split(p, p.value(("T", 8)), (4, 4))[0], 2))
    assert total_cost(plan, sizes(plan, (0, 8))) == Cost()


@pytest.mark.parametrize("name", MODELS)
def test_a_plan_is_the_sum_of_its_ops(name):
    plan = tiny_plan(name).plan
    s = sizes(plan, (5, 1), (0, 7), rows=2)
    by_op = cost_by_op(plan, s)
    assert set(by_op) <= set(OPS)
    assert total_cost(plan, s) == Cost(
        sum(cost.num_bytes for cost in by_op.values()), sum(cost.num_operations for cost in by_op.values())
    )
    assert by_op["linear"].num_operations > by_op["rms_norm" if name != "gpt2_like" else "layer_norm"].num_operations
