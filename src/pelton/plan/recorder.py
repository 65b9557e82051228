"""Runs a model file once, at load, and keeps the ops it calls.

A model file is ordinary Python: it asks `Weights` for weights by name and calls the functions of `plan.ops`, each of
which checks shapes and appends one node. Names of weights repeat per layer, so `Weights.layer(i)` looks them up below
"layers.{i}.".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pelton.plan.plan import Attribute, Dim, DType, Node, Plan, Value, WeightRef

TOKEN_IDS = Value(0, ("T",), "int32")
POSITIONS = Value(1, ("T",), "int32")


@dataclass(slots=True)
class Recorder:
    """Collects nodes. `token_ids` and `positions` are the step's inputs, both int32 [T]."""

    nodes: list[Node] = field(default_factory=list)
    num_values: int = 2
    token_ids: Value = TOKEN_IDS
    positions: Value = POSITIONS

    def value(self, shape: tuple[Dim, ...], dtype: DType = "float32") -> Value:
        """A fresh value, not yet computed by anything."""
        self.num_values += 1
        return Value(self.num_values - 1, shape, dtype)

    def record(
        self,
        op: str,
        inputs: tuple[Value, ...],
        weights: tuple[WeightRef | None, ...],
        outputs: tuple[Value, ...],
        **attributes: Attribute,
    ) -> None:
        """Append one node. Only the functions of `plan.ops` call this."""
        self.nodes.append(Node(op, inputs, weights, tuple(attributes.items()), outputs))

    def plan(self, output: Value) -> Plan:
        """The finished plan, whose result is `output`."""
        return Plan(tuple(self.nodes), (self.token_ids, self.positions), output)


@dataclass(frozen=True, slots=True)
class Weights:
    """The weights a model file may ask for, by plan name. Shapes come from the checkpoint."""

    shapes: Mapping[str, tuple[int, ...]]
    prefix: str = ""

    def __getitem__(self, name: str) -> WeightRef:
        """The weight called `name`. Raises KeyError if the checkpoint has none such."""
        full = self.prefix + name
        return WeightRef(full, self.shapes[full])

    def get(self, name: str) -> WeightRef | None:
        """The weight called `name`, or None: for biases and norms that a family has only sometimes."""
        return self[name] if self.prefix + name in self.shapes else None

    def layer(self, layer: int) -> Weights:
        """The weights of one layer, under their short names."""
        return Weights(self.shapes, f"{self.prefix}layers.{layer}.")
