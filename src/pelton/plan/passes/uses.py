"""Who makes and who reads a value: what a fusion has to know."""

from __future__ import annotations

from collections import Counter

from pelton.plan.plan import Node, Plan


def single_use_linears(plan: Plan) -> dict[int, Node]:
    """The linears whose result is read exactly once, by value id: another op may take them in."""
    uses = Counter(value.id for node in plan.nodes for value in node.inputs)
    uses[plan.output.id] += 1
    return {node.outputs[0].id: node for node in plan.nodes if node.op == "linear" and uses[node.outputs[0].id] == 1}
