"""A plan: a list of (op, inputs, attributes, outputs) over values with symbolic shapes, and nothing else.

Letters of shapes: T tokens of the step, all requests flattened; S rows whose logits are wanted. Plans are plain frozen
data: they can be printed, compared and saved as golden files; passes make other plans of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Dim = int | Literal["T", "S"]
DType = Literal["float32", "int32"]
# Attributes are plain frozen values, so that plans compare and print.
Attribute = None | bool | int | float | str | tuple["Attribute", ...]


@dataclass(frozen=True, slots=True)
class Value:
    """One array of a step."""

    id: int
    shape: tuple[Dim, ...]
    dtype: DType = "float32"

    def __str__(self) -> str:
        return f"%{self.id}[{','.join(map(str, self.shape))}]"


@dataclass(frozen=True, slots=True)
class WeightRef:
    """A weight that a node reads, by its name in the plan. `shape` is dense, whatever the scheme."""

    name: str
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.name}[{','.join(map(str, self.shape))}]"


@dataclass(frozen=True, slots=True)
class Node:
    """One operation. `weights` holds an entry for each weight the op's signature names, None where it is absent."""

    op: str
    inputs: tuple[Value, ...]
    weights: tuple[WeightRef | None, ...]
    attributes: tuple[tuple[str, Attribute], ...]
    outputs: tuple[Value, ...]

    def attribute(self, name: str) -> Attribute:
        """The attribute called `name`. Raises KeyError if the op has none such."""
        return dict(self.attributes)[name]

    def __str__(self) -> str:
        operands = [str(x) for x in self.inputs] + [str(w) if w else "-" for w in self.weights]
        settings = "".join(f" {key}={value}" for key, value in self.attributes)
        return f"{' '.join(map(str, self.outputs))} = {self.op}({', '.join(operands)}){settings}"


@dataclass(frozen=True, slots=True)
class Plan:
    """A recorded model. `inputs` are token_ids and positions; `output` the logits [S, V]."""

    nodes: tuple[Node, ...]
    inputs: tuple[Value, ...]
    output: Value

    def weights(self) -> dict[str, WeightRef]:
        """Every weight the plan reads, by name, in order of first use."""
        return {w.name: w for node in self.nodes for w in node.weights if w is not None}

    def __str__(self) -> str:
        return "\n".join([f"inputs {' '.join(map(str, self.inputs))}", *map(str, self.nodes), f"output {self.output}"])


# A rewrite of a plan that computes the same; a backend names those it wants in `Backend.passes`.
Pass = Callable[[Plan], Plan]
