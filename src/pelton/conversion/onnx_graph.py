"""A plan as an ONNX graph of standard operators: every op of the vocabulary, said again.

Tokens stay flattened as in the plan, [T, ...] with T = batch * sequence; only attention sees them as [batch, heads,
sequence, dimension]. A linear is one Gemm on the weight as it is stored; angles are computed in float64, as positions
times frequencies lose digits in float32. The cache goes in and out as `past_key_values` and `present`, as optimum
names them. Experts are computed densely, each weighed by what the router gives it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from pelton.conversion import onnx_proto as proto
from pelton.errors import CheckpointError
from pelton.plan import Plan
from pelton.plan.plan import Node, Value, WeightRef

_NEVER: Final = -3.0e38  # a score that no softmax lets through


class GraphBuilder:
    """Collects nodes, constants and the names of weights. Weights themselves are the caller's."""

    def __init__(
        self, plan: Plan, *, head_dim: int, num_kv_heads: int, num_layers: int, one_less: Mapping[str, str]
    ) -> None:
        """`one_less` names the initializers of weights that are stored less one."""
        self.nodes: list[bytes] = []
        self.constants: list[bytes] = []
        self._names: dict[int, str] = {}
        self._num_names = 0
        self._masks: dict[int | None, str] = {}
        self._angles: dict[tuple[tuple[float, ...], float], tuple[str, str]] = {}
        self._kv_sizes = (num_kv_heads, head_dim)
        self._num_layers = num_layers
        self._open(plan)
        for name, stored in one_less.items():
            self.op("Add", stored, self.number(1.0), into=name)
        for node in plan.nodes:
            self._add(node)
        vocab_size = int(plan.output.shape[-1])
        self._shaped(self.name_of(plan.output), [vocab_size], "logits")

    def op(self, kind: str, *inputs: str, into: str | None = None, **attributes: Any) -> str:
        """A node with one output, and its name."""
        name = into or self._fresh(kind)
        self.nodes.append(proto.node(kind, inputs, [name], attributes))
        return name

    def number(self, value: float) -> str:
        """A float32 constant."""
        return self._constant(proto.FLOAT, [], np.float32(value).tobytes())

    def whole(self, *values: int) -> str:
        """An int64 vector."""
        return self._constant(proto.INT64, [len(values)], np.array(values, np.int64).tobytes())

    def name_of(self, value: Value) -> str:
        """What a value of the plan is called in the graph."""
        return self._names[value.id]

    def _fresh(self, kind: str) -> str:
        self._num_names += 1
        return f"{kind}_{self._num_names}"

    def _constant(self, kind: int, dims: Sequence[int], raw: bytes) -> str:
        name = self._fresh("constant")
        self.constants.append(proto.constant(name, kind, dims, raw))
        return name

    def _open(self, plan: Plan) -> None:
        """Inputs flattened, and the lengths that masks and shapes need."""
        ids, positions = plan.inputs
        self._names[ids.id] = self.op("Reshape", "input_ids", self.whole(-1))
        self._names[positions.id] = self.op("Reshape", "position_ids", self.whole(-1))
        self._batch = self.op("Shape", "input_ids", start=0, end=1)
        self._sequence = self.op("Shape", "input_ids", start=1, end=2)
        self._length = self.op("Shape", "attention_mask", start=1, end=2)

    def _shaped(self, x: str, last: Sequence[int], into: str | None = None) -> str:
        """`x` as [batch, sequence, *last]."""
        shape = self.op("Concat", self._batch, self._sequence, self.whole(*last), axis=0)
        return self.op("Reshape", x, shape, into=into)

    def _add(self, node: Node) -> None:
        make: Callable[[Node], str | Sequence[str]] | None = getattr(self, f"_op_{node.op}", None)
        if make is None:
            raise CheckpointError(f"The op {node.op!r} has no form in ONNX here. Use another target format.")
        made = make(node)
        for value, name in zip(node.outputs, [made] if isinstance(made, str) else made, strict=True):
            self._names[value.id] = name

    def _inputs(self, node: Node) -> list[str]:
        return [self._names[value.id] for value in node.inputs]

    def _op_embedding(self, node: Node) -> str:
        return self.op("Gather", _weight(node.weights[0]), *self._inputs(node), axis=0)

    def _op_linear(self, node: Node) -> str:
        names = [weight.name for weight in node.weights if weight is not None]
        return self.op("Gemm", *self._inputs(node), *names, transB=1)

    def _op_rms_norm(self, node: Node) -> str:
        (x,) = self._inputs(node)
        mean = self.op("ReduceMean", self.op("Mul", x, x), self.whole(-1), keepdims=1)
        root = self.op("Sqrt", self.op("Add", mean, self.number(_float(node, "eps"))))
        y = self.op("Div", x, root)
        return y if node.weights[0] is None else self.op("Mul", y, node.weights[0].name)

    def _op_layer_norm(self, node: Node) -> str:
        names = [weight.name for weight in node.weights if weight is not None]
        return self.op("LayerNormalization", *self._inputs(node), *names, axis=-1, epsilon=_float(node, "eps"))

    def _op_activation(self, node: Node) -> str:
        return self._activate(self._inputs(node)[0], str(node.attribute("kind")))

    def _activate(self, x: str, kind: str) -> str:
        if kind == "silu":
            return self.op("Mul", x, self.op("Sigmoid", x))
        if kind == "relu":
            return self.op("Relu", x)
        if kind == "relu2":
            y = self.op("Relu", x)
            return self.op("Mul", y, y)
        if kind == "gelu":
            inner = self.op("Erf", self.op("Mul", x, self.number(2**-0.5)))
        else:
            cube = self.op("Mul", self.op("Mul", x, x), x)
            bent = self.op("Add", x, self.op("Mul", cube, self.number(0.044715)))
            inner = self.op("Tanh", self.op("Mul", bent, self.number((2 / np.pi) ** 0.5)))
        half = self.op("Mul", x, self.number(0.5))
        return self.op("Mul", half, self.op("Add", inner, self.number(1.0)))

    def _op_gated(self, node: Node) -> str:
        half = int(node.outputs[0].shape[-1])
        gate, up = self._cut(self._inputs(node)[0], (half, half))
        return self.op("Mul", self._activate(gate, str(node.attribute("kind"))), up)

    def _cut(self, x: str, sizes: Sequence[int]) -> list[str]:
        """Pieces of the last axis."""
        names = [self._fresh("Split") for _ in sizes]
        self.nodes.append(proto.node("Split", [x, self.whole(*sizes)], names, {"axis": -1}))
        return names

    def _op_split(self, node: Node) -> list[str]:
        return self._cut(self._inputs(node)[0], [int(value.shape[-1]) for value in node.outputs])

    def _op_heads(self, node: Node) -> str:
        return self.op("Reshape", *self._inputs(node), self.whole(0, *map(int, node.outputs[0].shape[1:])))

    def _op_add(self, node: Node) -> str:
        return self.op("Add", *self._inputs(node))

    def _op_scale(self, node: Node) -> str:
        return self.op("Mul", *self._inputs(node), self.number(_float(node, "factor")))

    def _op_softcap(self, node: Node) -> str:
        return self._cap(self._inputs(node)[0], _float(node, "cap"))

    def _cap(self, x: str, cap: float) -> str:
        return self.op("Mul", self.op("Tanh", self.op("Div", x, self.number(cap))), self.number(cap))

    def _op_select_rows(self, node: Node) -> str:
        return self._inputs(node)[0]  # the logits of all tokens are wanted

    def _op_sigmoid_scale(self, node: Node) -> str:
        x, gate = self._inputs(node)
        return self.op("Mul", x, self.op("Sigmoid", gate))

    def _op_route(self, node: Node) -> str:
        """Of equal logits TopK takes the lower expert, as we do."""
        shares = self.op("Softmax", *self._inputs(node), axis=-1)
        values, chosen = self._fresh("TopK"), self._fresh("TopK")
        count = self.whole(int(str(node.attribute("num_chosen"))))
        self.nodes.append(proto.node("TopK", [shares, count], [values, chosen], {"axis": -1}))
        if node.attribute("normalised"):
            values = self.op("Div", values, self.op("ReduceSum", values, self.whole(-1), keepdims=1))
        factor = _float(node, "factor")
        if factor != 1.0:
            values = self.op("Mul", values, self.number(factor))
        return self.op("ScatterElements", self.op("Mul", shares, self.number(0.0)), chosen, values, axis=-1)

    def _op_experts(self, node: Node) -> str:
        """Every expert on every row, times a weight that is mostly zero."""
        h, weights = self._inputs(node)
        gate_up, down = (_weight(weight) for weight in node.weights)
        num_experts, hidden = int(node.inputs[1].shape[1]), int(node.inputs[0].shape[1])
        assert node.weights[1] is not None, "experts have matrices"
        inner = node.weights[1].shape[1]
        total = ""
        for expert in range(num_experts):
            rows = self._slice(gate_up, expert * 2 * inner, (expert + 1) * 2 * inner, axis=0)
            gate, up = self._cut(self.op("Gemm", h, rows, transB=1), (inner, inner))
            y = self.op("Mul", self._activate(gate, str(node.attribute("kind"))), up)
            y = self.op("Gemm", y, self._slice(down, expert * hidden, (expert + 1) * hidden, axis=0), transB=1)
            y = self.op("Mul", y, self._slice(weights, expert, expert + 1, axis=1))
            total = self.op("Add", total, y) if total else y
        return total

    def _slice(self, x: str, begin: int, end: int, *, axis: int) -> str:
        return self.op("Slice", x, self.whole(begin), self.whole(end), self.whole(axis))

    def _op_rotary(self, node: Node) -> str:
        x, _ = self._inputs(node)
        inv_freq = node.attribute("inv_freq")
        assert isinstance(inv_freq, tuple), "frequencies are a tuple"
        cos, sin = self._find_angles(tuple(float(str(each)) for each in inv_freq), _float(node, "attention_factor"))
        pairs, dim = len(inv_freq), int(node.inputs[0].shape[-1])
        pieces = self._cut(x, [pairs, pairs, *([dim - 2 * pairs] if dim > 2 * pairs else [])])
        first, second = pieces[0], pieces[1]
        turned = [
            self.op("Sub", self.op("Mul", first, cos), self.op("Mul", second, sin)),
            self.op("Add", self.op("Mul", second, cos), self.op("Mul", first, sin)),
        ]
        return self.op("Concat", *turned, *pieces[2:], axis=-1)

    def _find_angles(self, inv_freq: tuple[float, ...], factor: float) -> tuple[str, str]:
        """cos and sin [T, 1, pairs] of these frequencies, made once."""
        key = (inv_freq, factor)
        if key not in self._angles:
            flat = self.op("Reshape", "position_ids", self.whole(-1, 1, 1))
            positions = self.op("Cast", flat, to=proto.DOUBLE)
            raw = np.array(inv_freq, np.float64).tobytes()
            turns = self.op("Mul", positions, self._constant(proto.DOUBLE, [1, 1, len(inv_freq)], raw))
            # Only the angle within a turn is needed, and that float32 holds well.
            turn = self._constant(proto.DOUBLE, [], np.float64(2 * np.pi).tobytes())
            within = self.op("Cast", self.op("Mod", turns, turn, fmod=1), to=proto.FLOAT)
            pair = [self.op(kind, within) for kind in ("Cos", "Sin")]
            if factor != 1.0:
                pair = [self.op("Mul", each, self.number(factor)) for each in pair]
            self._angles[key] = pair[0], pair[1]
        return self._angles[key]

    def _op_attention(self, node: Node) -> str:
        if node.weights[0] is not None:
            raise CheckpointError("Attention sinks have no form in ONNX here. Use another target format.")
        layer, num_heads = int(str(node.attribute("layer"))), int(node.inputs[0].shape[1])
        num_kv_heads, dim = self._kv_sizes
        q, k, v = (
            self.op("Transpose", self._shaped(x, [count, dim]), perm=(0, 2, 1, 3))
            for x, count in zip(self._inputs(node), (num_heads, num_kv_heads, num_kv_heads), strict=True)
        )
        k = self.op("Concat", f"past_key_values.{layer}.key", k, axis=2, into=f"present.{layer}.key")
        v = self.op("Concat", f"past_key_values.{layer}.value", v, axis=2, into=f"present.{layer}.value")
        k, v = (self._repeat(x, num_heads // num_kv_heads) for x in (k, v))
        scores = self.op("MatMul", q, self.op("Transpose", k, perm=(0, 1, 3, 2)))
        scores = self.op("Mul", scores, self.number(_float(node, "scale")))
        if node.attribute("softcap") is not None:
            scores = self._cap(scores, _float(node, "softcap"))
        window = node.attribute("window")
        seen = self._find_mask(None if window is None else int(str(window)))
        shares = self.op("Softmax", self.op("Where", seen, scores, self.number(_NEVER)), axis=-1)
        gathered = self.op("Transpose", self.op("MatMul", shares, v), perm=(0, 2, 1, 3))
        return self.op("Reshape", gathered, self.whole(-1, num_heads * dim))

    def _repeat(self, x: str, count: int) -> str:
        """[batch, K, length, dimension] with each head `count` times."""
        if count == 1:
            return x
        num_kv_heads, dim = self._kv_sizes
        wide = self.op("Unsqueeze", x, self.whole(2))
        shape = (self._batch, self.whole(num_kv_heads, count), self._length, self.whole(dim))
        wide = self.op("Expand", wide, self.op("Concat", *shape, axis=0))
        flat = (self._batch, self.whole(num_kv_heads * count), self._length, self.whole(dim))
        return self.op("Reshape", wide, self.op("Concat", *flat, axis=0))

    def _find_mask(self, window: int | None) -> str:
        """[batch, 1, sequence, length]: which tokens a token sees, made once for each window."""
        if window not in self._masks:
            zero, one = (self._constant(proto.INT64, [], np.int64(n).tobytes()) for n in (0, 1))
            length, sequence = (self.op("Squeeze", each, self.whole(0)) for each in (self._length, self._sequence))
            keys = self.op("Range", zero, length, one)
            queries = self.op("Range", self.op("Sub", length, sequence), length, one)
            ago = self.op(
                "Sub", self.op("Unsqueeze", queries, self.whole(1)), self.op("Unsqueeze", keys, self.whole(0))
            )
            seen = self.op("GreaterOrEqual", ago, zero)
            if window is not None:
                within = self._constant(proto.INT64, [], np.int64(window).tobytes())
                seen = self.op("And", seen, self.op("Less", ago, within))
            real = self.op("Cast", "attention_mask", to=proto.BOOL)
            self._masks[window] = self.op("And", self.op("Unsqueeze", real, self.whole(1, 2)), seen)
        return self._masks[window]

    def make_graph(self, weights: Sequence[bytes], vocab_size: int) -> bytes:
        """The GraphProto. `weights` are initializers of the weights' names."""
        kv = [f"{layer}.{part}" for layer in range(self._num_layers) for part in ("key", "value")]
        num_kv_heads, dim = self._kv_sizes
        inputs = [
            proto.value_info("input_ids", proto.INT64, ["batch", "sequence"]),
            proto.value_info("attention_mask", proto.INT64, ["batch", "length"]),
            proto.value_info("position_ids", proto.INT64, ["batch", "sequence"]),
            *(
                proto.value_info(f"past_key_values.{name}", proto.FLOAT, ["batch", num_kv_heads, "past", dim])
                for name in kv
            ),
        ]
        outputs = [
            proto.value_info("logits", proto.FLOAT, ["batch", "sequence", vocab_size]),
            *(proto.value_info(f"present.{name}", proto.FLOAT, ["batch", num_kv_heads, "length", dim]) for name in kv),
        ]
        fields: list[proto.Field] = [(1, node) for node in self.nodes]
        fields.append((2, "model"))
        fields += [(5, tensor) for tensor in (*self.constants, *weights)]
        return proto.message([*fields, *((11, each) for each in inputs), *((12, each) for each in outputs)])


def _weight(weight: WeightRef | None) -> str:
    assert weight is not None, "the op has a weight"
    return weight.name


def _float(node: Node, name: str) -> float:
    return float(str(node.attribute(name)))
