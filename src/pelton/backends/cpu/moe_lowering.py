"""How the ops of mixtures of experts become native ops. Works on the inside of `Lowering`, of which it is a part.

Each expert's matrices are packed for themselves. A token's row is quantized once, by the quantization that any linear
on the same value shares, and copied to its experts. Memory is for pairs of (token, expert), however they fall.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pelton.backends.cpu import _native
from pelton.backends.cpu.buffer_plan import Buffer, NativeOp
from pelton.backends.cpu.operands import axis_of, weight_of
from pelton.errors import BackendError
from pelton.plan import Node, WeightRef

if TYPE_CHECKING:
    from pelton.backends.cpu.lowering import Lowering


def lower_route(lowering: Lowering, node: Node) -> None:
    """One row op, in place where nobody reads the logits again."""
    (logits,) = node.inputs
    num_chosen, normalised, factor = (node.attribute(name) for name in ("num_chosen", "normalised", "factor"))
    if int(str(num_chosen)) > _native.MAX_CHOSEN_EXPERTS:
        raise BackendError(
            f"cpu: route chooses {num_chosen} experts for a token; at most {_native.MAX_CHOSEN_EXPERTS} are kept."
        )
    x, y = lowering._view(logits), lowering._result(node.outputs[0], logits)
    axis = axis_of(logits)
    lowering._note_lanes("route")
    lowering._add_row_op(
        axis,
        (x, y),
        lambda p, at, _: p.add_route(axis == "S", at(x), at(y), x.width, num_chosen, normalised, factor),
    )


def lower_sigmoid_scale(lowering: Lowering, node: Node) -> None:
    """One row op, in place where nobody reads the rows again."""
    x_value, gate_value = node.inputs
    x, gate, y = lowering._view(x_value), lowering._view(gate_value), lowering._result(node.outputs[0], x_value)
    axis = axis_of(x_value)
    lowering._note_lanes("sigmoid_scale")
    lowering._add_row_op(
        axis, (x, gate, y), lambda p, at, _: p.add_sigmoid_scale(axis == "S", at(x), at(gate), at(y), x.width)
    )


def lower_experts(lowering: Lowering, node: Node) -> None:
    """The rows quantized, then one op with all its phases."""
    h_value, weights_value = node.inputs
    if axis_of(h_value) != "T":
        raise BackendError("cpu: experts work on the tokens of the step only.")
    num_experts, limits = int(weights_value.shape[1]), lowering._limits
    gate_up, down = (lowering._store.pieces(weight_of(node, i), num_experts) for i in (0, 1))
    h_kind, inner_kind = kind_of(lowering, gate_up), kind_of(lowering, down)
    store = lowering._store
    is_interleaved = all(store.gates_and_ups(ref) is not None for ref in gate_up)
    task = _native.ExpertsTask(
        h_kind=h_kind,
        inner_kind=inner_kind,
        hidden_size=int(h_value.shape[1]),
        inner_size=down[0].shape[1],
        max_chosen=int(str(node.attribute("num_chosen"))),
        max_tokens=limits.max_num_batched_tokens,
        function=str(node.attribute("kind")),
        is_interleaved=is_interleaved,
    )
    h = lowering._quantize(h_value, h_kind)
    weights, y = lowering._view(weights_value), lowering._new_view(node.outputs[0])
    memory, own_memory = Buffer(task.memory_bytes()), Buffer(task.own_bytes(num_experts) * limits.num_threads)
    lowering.matrices |= {ref.name: ref for ref in down}
    lowering.need_scratch(_native.linear_gated_scratch_bytes(limits.max_num_batched_tokens))
    (lowering.gated_matrices if is_interleaved else lowering.matrices).update({ref.name: ref for ref in gate_up})
    for refs, kind in ((gate_up, h_kind), (down, inner_kind)):
        for ref in refs:
            lowering._note_schemes("experts", ref, [kind] * len(lowering._store.get(ref).parts))

    def emit(p: Any, at: Any, at_buffer: Any) -> None:
        ups = [[store.gated_matrix(ref)] if is_interleaved else store.matrices(ref) for ref in gate_up]
        matrices = [(up, store.matrices(ref)[0]) for up, ref in zip(ups, down, strict=True)]
        p.add_experts(task, at_buffer(h), at(weights), at(y), at_buffer(memory), at_buffer(own_memory), matrices)

    touched = (h, weights.buffer, y.buffer, memory, own_memory)
    lowering.ops.append(NativeOp("any", "any", touched, emit))


def kind_of(lowering: Lowering, refs: list[WeightRef]) -> Any:
    """The form of activations that the kernels of all these matrices multiply. Raises BackendError if they differ."""
    is_wide = lowering._limits.wide_activations == "all"
    kinds = {kind.name: kind for ref in refs for kind in lowering._store.activation_kinds(ref, is_wide=is_wide)}
    if len(kinds) > 1:
        schemes = sorted({part.scheme for ref in refs for part in lowering._store.get(ref).parts})
        raise BackendError(
            f"cpu: the experts of {refs[0].name!r} and its neighbours are stored as {', '.join(schemes)}, which need "
            "different activations. Store them all dense, or all quantized."
        )
    return next(iter(kinds.values()))


LOWERED: Mapping[str, Callable[[Lowering, Node], None]] = {
    "experts": lower_experts,
    "route": lower_route,
    "sigmoid_scale": lower_sigmoid_scale,
}
