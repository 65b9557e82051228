"""What a node works on, in the words of the lowering."""

from __future__ import annotations

from pelton.backends.cpu.buffer_plan import Sharing
from pelton.errors import BackendError
from pelton.plan import Node, Value, WeightRef


def axis_of(value: Value) -> Sharing:
    """The axis of a value's rows. Raises BackendError where a value has none."""
    axis = value.shape[0]
    if axis in ("T", "S"):
        return "T" if axis == "T" else "S"
    raise BackendError(f"cpu: {value} has no rows of tokens.")


def weight_of(node: Node, index: int) -> WeightRef:
    """A weight that must be there."""
    ref = node.weights[index]
    assert ref is not None, f"{node.op}: weight {index} is required"
    return ref
