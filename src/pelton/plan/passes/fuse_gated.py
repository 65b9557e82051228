"""linear -> gated becomes linear_gated, where nothing else reads the linear: gate and up stay in the kernel."""

from __future__ import annotations

from pelton.plan.passes.dead_nodes import drop_dead_nodes
from pelton.plan.passes.uses import single_use_linears
from pelton.plan.plan import Node, Plan


def fuse_gated(plan: Plan) -> Plan:
    """`plan` with every such pair fused."""
    plan = drop_dead_nodes(plan)  # a dead reader must not forbid a fusion
    linears = single_use_linears(plan)
    nodes: list[Node] = []
    for node in plan.nodes:
        linear = linears.get(node.inputs[0].id) if node.op == "gated" else None
        if linear is None:
            nodes.append(node)
        else:
            nodes.append(Node("linear_gated", linear.inputs, linear.weights, node.attributes, node.outputs))
    return drop_dead_nodes(Plan(tuple(nodes), plan.inputs, plan.output))
