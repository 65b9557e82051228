"""What a step needs at least, summed over a plan: the roofline that measured times are held against."""

from __future__ import annotations

from pelton.plan.op_spec import Cost, Sizes
from pelton.plan.plan import Plan
from pelton.plan.registry import OPS


def cost_by_op(plan: Plan, sizes: Sizes) -> dict[str, Cost]:
    """The cost of all nodes of each op, in order of first use."""
    costs: dict[str, Cost] = {}
    for node in plan.nodes:
        costs[node.op] = costs.get(node.op, Cost()) + OPS[node.op].cost(node, sizes)
    return costs


def total_cost(plan: Plan, sizes: Sizes) -> Cost:
    """The cost of one step of `plan`. Values between nodes count as moved, though a fast memory may keep them."""
    return sum(cost_by_op(plan, sizes).values(), Cost())
