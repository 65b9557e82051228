"""From a plan to native ops: which kernel runs, what is a view, what is overwritten in place, what is quantized once.

Splitting and reading heads are views. An op whose operand nobody needs afterwards writes over it. A value that several
linears read is quantized once for each form that their weights want. Keys and values go to the cache in an op of their
own before the attention that reads them. Linear + add and linear + gated may arrive fused or not; both work.

Runs once, at load; one walk over the plan.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

from pelton.backends.cpu import _native, moe_lowering
from pelton.backends.cpu.attention_lowering import lower_attention
from pelton.backends.cpu.buffer_plan import Buffer, NativeOp, Sharing, View
from pelton.backends.cpu.operands import axis_of, weight_of
from pelton.backends.cpu.refine_lowering import lower_refine
from pelton.backends.cpu.weights import WeightStore
from pelton.backends.executable import Limits
from pelton.errors import BackendError, nearest
from pelton.plan import Node, Plan, Value, WeightRef

LANES = 16  # rows are padded to whole vectors


class Lowering:
    """The native ops of `plan`, in order, and what the program must know to hold them."""

    def __init__(self, plan: Plan, store: WeightStore, limits: Limits) -> None:
        self.ops: list[NativeOp] = []
        self.kernels: dict[tuple[str, str], str] = {}  # (op, kernel) -> why
        self.matrices: dict[str, WeightRef] = {}
        self.gated_matrices: dict[str, WeightRef] = {}  # with gates and ups interleaved
        self.scratch_bytes = _native.linear_scratch_bytes(limits.max_num_batched_tokens)
        self.kv_block_bytes = 0
        self.token_rows: list[int] = []  # sizes of the tables that token ids and positions look into
        self.position_rows: list[int] = []
        self._plan = plan
        self._store = store
        self._limits = limits
        self._views: dict[int, View] = {}
        self._quantized: dict[tuple[int, str], Buffer] = {}
        self._cached_layers: set[int] = set()
        self._rotary_tables: dict[tuple[Any, ...], Any] = {}
        self._index = 0
        self._last_use = {value.id: i for i, node in enumerate(plan.nodes) for value in node.inputs}
        self._last_use[plan.output.id] = len(plan.nodes)
        for self._index, node in enumerate(plan.nodes):
            self._lower(node)
        self.output = self._view(plan.output)

    def _lower(self, node: Node) -> None:
        if node.op not in LOWERED:
            raise BackendError(f"cpu: op {node.op!r} has no native kernel. {nearest(node.op, LOWERED)}")
        first = len(self.ops)
        LOWERED[node.op](self, node)
        self.ops[first:] = [op if op.label else replace(op, label=label_of(node)) for op in self.ops[first:]]

    def need_scratch(self, size_bytes: int) -> None:
        """Every thread gets at least so much memory of its own."""
        self.scratch_bytes = max(self.scratch_bytes, size_bytes)

    def _note(self, op: str, kernel: str, why: str) -> None:
        self.kernels.setdefault((op, kernel), why)

    def _note_lanes(self, op: str) -> None:
        self._note(op, _native.isa(), "16 float32 lanes, the same bits on every instruction set")

    # Values and their memory.

    def _view(self, value: Value) -> View:
        return self._views[value.id]

    def _num_rows(self, axis: Sharing) -> int:
        return self._limits.max_num_batched_tokens if axis == "T" else self._limits.max_num_logits_rows

    def _new_view(self, value: Value) -> View:
        """Fresh memory for `value`."""
        width = prod(int(size) for size in value.shape[1:])
        stride = -(-width // LANES) * LANES
        view = View(Buffer(self._num_rows(axis_of(value)) * stride * 4), 0, width, stride)
        self._views[value.id] = view
        return view

    def _result(self, value: Value, *reusable: Value) -> View:
        """Memory for `value`: that of the first of `reusable` which fits and which nobody reads after this node."""
        for operand in reusable:
            view = self._views[operand.id]
            if operand.shape == value.shape and self._is_last_use(operand, view):
                self._views[value.id] = view
                return view
        return self._new_view(value)

    def _is_last_use(self, operand: Value, view: View) -> bool:
        aliases = {value_id for value_id, other in self._views.items() if other.overlaps(view)} | {operand.id}
        return all(self._last_use.get(value_id, -1) <= self._index for value_id in aliases)

    def _add_row_op(self, axis: Sharing, views: tuple[View, ...], emit: Callable[..., None]) -> None:
        self.ops.append(NativeOp(axis, axis, tuple(view.buffer for view in views), emit))

    # Ops. Each adds native ops and says where the result is.

    def _embedding(self, node: Node) -> None:
        (ids,), ref = node.inputs, weight_of(node, 0)
        table = self._store.table(ref)
        by_position = ids == self._plan.inputs[1]
        if not by_position and ids != self._plan.inputs[0]:
            raise BackendError("cpu: embedding looks up token ids or positions only.")
        (self.position_rows if by_position else self.token_rows).append(table.shape[0])
        y = self._new_view(node.outputs[0])
        self._note("embedding", "generic", f"{table.scheme} rows are dequantized from the checkpoint, one per token")
        self._add_row_op(
            "T",
            (y,),
            lambda p, at, _: p.add_embedding(by_position, table.payload, table.scheme, table.shape[1], at(y)),
        )

    def _rms_norm(self, node: Node) -> None:
        (x_value,), ref = node.inputs, node.weights[0]
        refined = axis_of(x_value) == "S" and self._limits.wide_activations == "likely"  # needs the floats
        is_whole = len(x_value.shape) == 2 and not refined
        if is_whole and (kind := self._kind_of_readers(node.outputs[0])) is not None:
            self._add_norm_quantize(node, kind)
            return
        x, y = self._view(x_value), self._result(node.outputs[0], x_value)
        size = int(x_value.shape[-1])
        axis, num_heads, eps = axis_of(x_value), x.width // size, node.attribute("eps")
        self._note_lanes("rms_norm")
        self._add_row_op(
            axis,
            (x, y),
            lambda p, at, _: p.add_rms_norm(
                axis == "S", at(x), at(y), self._store.vector(p, ref), num_heads, size, eps
            ),
        )

    def _add_norm_quantize(self, node: Node, kind: Any) -> None:
        """A norm that only linears read: its rows are quantized at once, and no floats are kept."""
        (x_value,), ref = node.inputs, node.weights[0]
        x, axis, eps = self._view(x_value), axis_of(x_value), node.attribute("eps")
        y = Buffer(_native.activation_size_bytes(kind, self._num_rows(axis), x.width))
        self._quantized[(node.outputs[0].id, kind.name)] = y
        self.need_scratch(4 * x.width)
        self._note("rms_norm", f"{_native.isa()} quantized", f"writes activations {kind.name}, no floats")
        self.ops.append(
            NativeOp(
                axis,
                axis,
                (x.buffer, y),
                lambda p, at, at_buffer: p.add_norm_quantize(
                    axis == "S", at(x), self._store.vector(p, ref), x.width, eps, kind, at_buffer(y)
                ),
            )
        )

    def _layer_norm(self, node: Node) -> None:
        (x_value,), (weight, bias) = node.inputs, node.weights
        if len(x_value.shape) != 2:
            raise BackendError(f"cpu: layer_norm works on rows, not on {x_value}.")
        x, y = self._view(x_value), self._result(node.outputs[0], x_value)
        axis, eps = axis_of(x_value), node.attribute("eps")
        self._note_lanes("layer_norm")
        self._add_row_op(
            axis,
            (x, y),
            lambda p, at, _: p.add_layer_norm(
                axis == "S", at(x), at(y), self._store.vector(p, weight), self._store.vector(p, bias), x.width, eps
            ),
        )

    def _rotary(self, node: Node) -> None:
        x_value, positions = node.inputs
        if axis_of(x_value) != "T" or positions != self._plan.inputs[1]:
            raise BackendError("cpu: rotary turns the tokens of the step by their own positions only.")
        x, y = self._view(x_value), self._result(node.outputs[0], x_value)
        num_heads, head_dim = int(x_value.shape[1]), int(x_value.shape[2])
        inv_freq, factor = node.attribute("inv_freq"), node.attribute("attention_factor")
        assert isinstance(inv_freq, tuple)
        key = (inv_freq, factor)
        self._note_lanes("rotary")

        def emit(p: Any, at: Any, _: Any) -> None:
            if key not in self._rotary_tables:
                self._rotary_tables[key] = p.add_rotary_table(list(inv_freq), factor)
            p.add_rotary(at(x), at(y), self._rotary_tables[key], num_heads, head_dim)

        self._add_row_op("T", (x, y), emit)

    def _heads(self, node: Node) -> None:
        self._views[node.outputs[0].id] = self._view(node.inputs[0])

    def _split(self, node: Node) -> None:
        (x_value,) = node.inputs
        x, first = self._view(x_value), self._view(x_value).first
        if len(x_value.shape) != 2:
            raise BackendError(f"cpu: split cuts rows, not {x_value}.")
        for piece in node.outputs:
            width = int(piece.shape[-1])
            self._views[piece.id] = View(x.buffer, first, width, x.stride)
            first += width

    def _add(self, node: Node) -> None:
        x, other = (self._view(value) for value in node.inputs)
        y, axis = self._result(node.outputs[0], *node.inputs), axis_of(node.outputs[0])
        self._note_lanes("add")
        self._add_row_op(axis, (x, other, y), lambda p, at, _: p.add_add(axis == "S", at(x), at(other), at(y), x.width))

    def _one_to_one(self, node: Node) -> None:
        """scale, softcap and activation: an op with one attribute."""
        x, y = self._view(node.inputs[0]), self._result(node.outputs[0], node.inputs[0])
        axis, ((_, setting),) = axis_of(node.inputs[0]), node.attributes
        self._note_lanes(node.op)
        add: Any = {
            "scale": _native.Program.add_scale,
            "softcap": _native.Program.add_softcap,
            "activation": _native.Program.add_activation,
        }[node.op]
        self._add_row_op(axis, (x, y), lambda p, at, _: add(p, axis == "S", at(x), at(y), x.width, setting))

    def _gated(self, node: Node) -> None:
        self._add_gated(self._view(node.inputs[0]), node)

    def _add_gated(self, x: View, node: Node) -> None:
        y, axis = self._new_view(node.outputs[0]), axis_of(node.outputs[0])
        if len(node.outputs[0].shape) != 2:
            raise BackendError(f"cpu: gated works on rows, not on {node.outputs[0]}.")
        kind = node.attribute("kind")
        self._note_lanes("gated")
        self._add_row_op(axis, (x, y), lambda p, at, _: p.add_gated(axis == "S", at(x), at(y), y.width, kind))

    def _select_rows(self, node: Node) -> None:
        x, y = self._view(node.inputs[0]), self._new_view(node.outputs[0])
        if axis_of(node.inputs[0]) != "T":
            raise BackendError("cpu: select_rows chooses among the tokens of the step only.")
        self._note("select_rows", "generic", "a copy of rows")
        touched = (x.buffer, y.buffer)
        self.ops.append(NativeOp("any", "S", touched, lambda p, at, _: p.add_select_rows(at(x), at(y), x.width)))

    def _linear(self, node: Node) -> None:
        self._add_linear(node, self._new_view(node.outputs[0]), None)

    def _linear_add(self, node: Node) -> None:
        other = node.inputs[1]
        residual = self._view(other)
        self._add_linear(node, self._result(node.outputs[0], other), residual)

    def _linear_gated(self, node: Node) -> None:
        y_value, weight = node.outputs[0], weight_of(node, 0)
        rows, kind = node.inputs[0].shape[0], self._kind_of_readers(y_value)
        if kind is not None and self._store.gates_and_ups(weight) is not None:
            self._add_interleaved(node, kind)
            return
        both = Value(-1 - self._index, (rows, weight.shape[0]))  # no other value has a negative id
        x = self._new_view(both)
        self._add_linear(node, x, None)
        self._add_gated(x, node)

    def _kind_of_readers(self, value: Value) -> Any:
        """The one form of activation in which everything that reads `value` multiplies it, or None."""
        readers = [node for node in self._plan.nodes if value in node.inputs]
        if value == self._plan.output or any(
            node.op not in ("linear", "linear_add", "linear_gated", "experts") or value in node.inputs[1:]
            for node in readers
        ):
            return None
        kinds = {kind for node in readers for kind in self._activation_kinds(node)}
        return kinds.pop() if len(kinds) == 1 else None

    def _activation_kinds(self, node: Node) -> list[Any]:
        """For each part of a node's first weight, the form of activations that its kernel multiplies."""
        wide = self._limits.wide_activations
        is_wide = wide == "all" or (wide == "head" and axis_of(node.inputs[0]) == "S")
        return self._store.activation_kinds(weight_of(node, 0), is_wide=is_wide)

    def _add_interleaved(self, node: Node, kind: Any) -> None:
        """A linear whose strips hold gates and their ups: it writes the quantized product, and no floats."""
        x_value, y_value, weight, bias = node.inputs[0], node.outputs[0], weight_of(node, 0), node.weights[1]
        axis, size, function = axis_of(x_value), int(y_value.shape[1]), node.attribute("kind")
        x_kind = self._activation_kinds(node)[0]
        x = self._quantize(x_value, x_kind)
        y = Buffer(_native.activation_size_bytes(kind, self._num_rows(axis), size))
        self._quantized[(y_value.id, kind.name)] = y
        self.need_scratch(_native.linear_gated_scratch_bytes(self._num_rows(axis)))
        self.gated_matrices.setdefault(weight.name, weight)
        self._note_schemes("linear", weight, self._activation_kinds(node))
        self._note("linear_gated", f"{_native.isa()} interleaved", f"writes activations {kind.name}, no floats")

        def emit(p: Any, _: Any, at_buffer: Any) -> None:
            part = (self._store.gated_matrix(weight), x_kind, at_buffer(x))
            p.add_linear_gated(axis == "S", part, self._store.gated_bias(p, bias), function, kind, size, at_buffer(y))

        self.ops.append(NativeOp("any", "any", (x, y), emit))

    def _add_linear(self, node: Node, y: View, residual: View | None) -> None:
        x_value, weight, bias = node.inputs[0], weight_of(node, 0), node.weights[1]
        if len(x_value.shape) != 2:
            raise BackendError(f"cpu: linear multiplies rows, not {x_value}.")
        axis = axis_of(x_value)
        kinds = self._activation_kinds(node)
        activations = [self._quantize(x_value, kind) for kind in kinds]
        self._note_schemes("linear", weight, kinds)
        self.matrices.setdefault(weight.name, weight)
        operands = [*activations, y.buffer] + ([residual.buffer] if residual is not None else [])

        def emit(p: Any, at: Any, at_buffer: Any) -> None:
            matrices = self._store.matrices(weight)
            places = [at_buffer(buffer) for buffer in activations]
            parts = list(zip(matrices, kinds, places, strict=True))
            bias_vector = self._store.vector(p, bias)
            p.add_linear(axis == "S", parts, bias_vector, None if residual is None else at(residual), at(y))

        self.ops.append(NativeOp("any", "any", tuple(operands), emit))
        if axis == "S" and self._limits.wide_activations == "likely":
            self.ops += lower_refine(self, node, kinds, y)

    def _note_schemes(self, op: str, weight: WeightRef, kinds: Sequence[Any]) -> None:
        for part, kind in zip(self._store.get(weight).parts, kinds, strict=True):
            why = f"{part.scheme} packed in strips of 64 channels, activations {kind.name}"
            self._note(op, f"{_native.isa()} {part.scheme}", why)

    def _quantize(self, x_value: Value, kind: Any) -> Buffer:
        """Memory with `x_value` in the form `kind`; the same for all linears that read the value."""
        key = (x_value.id, kind.name)
        if key not in self._quantized:
            x, axis = self._view(x_value), axis_of(x_value)
            buffer = Buffer(_native.activation_size_bytes(kind, self._num_rows(axis), x.width))
            self._quantized[key] = buffer
            touched = (x.buffer, buffer)
            self.ops.append(
                NativeOp(
                    axis,
                    axis,
                    touched,
                    lambda p, at, at_buffer: p.add_quantize(axis == "S", at(x), kind, x.width, at_buffer(buffer)),
                    "quantize",
                )
            )
        return self._quantized[key]

    def _attention(self, node: Node) -> None:
        layer = node.attribute("layer")
        if layer in self._cached_layers:
            raise BackendError(f"cpu: two attentions use the cache of layer {layer}; each needs its own.")
        self._cached_layers.add(int(str(layer)))
        q, k, v = (self._view(value) for value in node.inputs)
        views, offset = (q, k, v, self._new_view(node.outputs[0])), self.kv_block_bytes
        lowered = lower_attention(
            self._plan, node, views, store=self._store, limits=self._limits, layer_offset_bytes=offset
        )
        self.kv_block_bytes += lowered.layer_bytes
        self.scratch_bytes = max(self.scratch_bytes, lowered.scratch_bytes)
        kernel = f"{_native.isa()} {lowered.kv_dtype} cache"
        self._note("attention", kernel, "queries of one kv head share cache lines")
        self.ops.extend(lowered.ops)


LOWERED: Mapping[str, Callable[[Lowering, Node], None]] = {
    "activation": Lowering._one_to_one,
    "add": Lowering._add,
    "attention": Lowering._attention,
    "embedding": Lowering._embedding,
    "gated": Lowering._gated,
    "heads": Lowering._heads,
    "layer_norm": Lowering._layer_norm,
    "linear": Lowering._linear,
    "linear_add": Lowering._linear_add,
    "linear_gated": Lowering._linear_gated,
    "rms_norm": Lowering._rms_norm,
    "rotary": Lowering._rotary,
    "scale": Lowering._one_to_one,
    "select_rows": Lowering._select_rows,
    "softcap": Lowering._one_to_one,
    "split": Lowering._split,
    **moe_lowering.LOWERED,
}


def label_of(node: Node) -> str:
    """What a profile calls the node's ops: the op, and for a matrix which one, the same for all layers."""
    if not node.op.startswith("linear"):
        return node.op
    return f"linear {weight_of(node, 0).name.rsplit('.', 1)[-1]}"
