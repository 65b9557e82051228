"""linear -> add becomes linear_add, where nothing else reads the linear: the residual joins in the kernel's epilogue.

The pair moves to the place of the add, where both operands exist. If both are linears the first is taken in.
"""

from __future__ import annotations

from pelton.plan.passes.dead_nodes import drop_dead_nodes
from pelton.plan.passes.uses import single_use_linears
from pelton.plan.plan import Node, Plan


def fuse_residual(plan: Plan) -> Plan:
    """`plan` with every such pair fused. Bitwise the same where the backend adds in the order of its linear."""
    plan = drop_dead_nodes(plan)  # a dead reader must not forbid a fusion
    linears = single_use_linears(plan)
    nodes: list[Node] = []
    for node in plan.nodes:
        products = [value for value in node.inputs if value.id in linears] if node.op == "add" else []
        if products:
            linear = linears[products[0].id]
            (other,) = (value for value in node.inputs if value != products[0])
            nodes.append(Node("linear_add", (*linear.inputs, other), linear.weights, (), node.outputs))
        else:
            nodes.append(node)
    return drop_dead_nodes(Plan(tuple(nodes), plan.inputs, plan.output))
