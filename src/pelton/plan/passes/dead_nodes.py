"""Leaves out what the output does not depend on. Cost: one walk over the plan."""

from __future__ import annotations

from pelton.plan.plan import Node, Plan


def drop_dead_nodes(plan: Plan) -> Plan:
    """`plan` without nodes none of whose results reach the output.

    That goes for attention too: what it writes to the cache is read by the same layer only.
    """
    needed = {plan.output.id}
    kept: list[Node] = []
    for node in reversed(plan.nodes):
        if any(value.id in needed for value in node.outputs):
            needed.update(value.id for value in node.inputs)
            kept.append(node)
    return Plan(tuple(reversed(kept)), plan.inputs, plan.output)
