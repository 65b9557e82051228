"""The likeliest outputs of a head again, with 16-bit activations: an op behind the linear. Runs once, at load."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pelton.backends.cpu import _native
from pelton.backends.cpu.buffer_plan import Buffer, NativeOp, View
from pelton.backends.cpu.operands import weight_of
from pelton.plan import Node

if TYPE_CHECKING:
    from pelton.backends.cpu.lowering import Lowering


def lower_refine(lowering: Lowering, node: Node, kinds: Sequence[Any], y: View) -> list[NativeOp]:
    """The op that changes `y`, the outputs of linear `node`; none where it multiplied more than 8-bit activations."""
    x_value, weight = node.inputs[0], weight_of(node, 0)
    if any(kind.name != "Int8" for kind in kinds):
        return []
    x, max_rows = lowering._view(x_value), lowering._num_rows("S")
    memory = Buffer(_native.refine_bytes(weight.shape[0], len(kinds), x.width, max_rows))
    lowering.need_scratch(_native.refine_scratch_bytes(x.width, max_rows))
    lowering._note("linear", f"{_native.isa()} refined", "strips with likely tokens again, with 16-bit activations")

    def emit(p: Any, at: Any, at_buffer: Any) -> None:
        p.add_refine(True, lowering._store.matrices(weight), at(x), at(y), max_rows, at_buffer(memory))

    return [NativeOp("any", "any", (x.buffer, y.buffer, memory), emit, "refine")]
