"""What is known about an op besides how it is recorded: small cases to try it on, how exact it must be, what it costs.

Every file of `plan.ops` holds one OpSpec, and `plan.registry` lists them all. The conformance suite runs every case of
every op on every backend and compares with the reference in float64; nobody writes those tests by hand. Cases are odd
on purpose: one token, sizes that are multiples of nothing, values that are far from one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from pelton.plan.plan import Attribute, Node, Value

Array = npt.NDArray[Any]
# What a backend computes an op in: float32 throughout; bfloat16 operands or cache; 8-bit activations.
Arithmetic = Literal["float32", "bfloat16", "int8"]
# Largest error of any element, relative to the largest magnitude of its row of the exact result.
Tolerance = Mapping[Arithmetic, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One small instance of an op. A float32 input is [T, ...]; an int32 input is the step's token ids."""

    name: str
    inputs: tuple[Array, ...]
    weights: tuple[Array | None, ...] = ()
    attributes: Mapping[str, Attribute] = field(default_factory=dict)  # as the recording function calls them
    first_position: int = 0  # position of the first token

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Cost:
    """What an op needs at least: bytes moved to and from memory, and operations (a multiply-add counts two)."""

    num_bytes: int = 0
    num_operations: int = 0

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.num_bytes + other.num_bytes, self.num_operations + other.num_operations)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """The step and the model that a cost is asked for."""

    requests: tuple[tuple[int, int], ...]  # of each request: tokens computed before, tokens of this step
    num_logits_rows: int
    weight_bytes: Mapping[str, int]  # by plan name, as stored
    value_bytes: int = 4  # one activation
    kv_value_bytes: int = 4  # one number of the cache

    @property
    def num_tokens(self) -> int:
        """T: tokens of the step."""
        return sum(new for _, new in self.requests)

    def num_elements(self, value: Value) -> int:
        """Numbers in `value` in this step."""
        axes = {"T": self.num_tokens, "S": self.num_logits_rows}
        return int(np.prod([axes[dim] if isinstance(dim, str) else dim for dim in value.shape]))

    def moved_bytes(self, node: Node) -> int:
        """Bytes of all values that `node` reads and writes, each once, and of its weights as stored."""
        values = sum(self.num_elements(value) for value in (*node.inputs, *node.outputs))
        weights = sum(self.weight_bytes[ref.name] for ref in node.weights if ref is not None)
        return values * self.value_bytes + weights


@dataclass(frozen=True, slots=True, kw_only=True)
class OpSpec:
    """One op of the vocabulary."""

    name: str
    record: Callable[..., Value | tuple[Value, ...]]  # record(p, *inputs, *weights, **attributes)
    tolerance: Tolerance
    sample: Callable[[np.random.Generator], tuple[Case, ...]]
    cost: Callable[[Node, Sizes], Cost]
    matrix: int | None = None  # which weight may be stored in any scheme, if one may
    fused: bool = False  # made by passes only; a backend may refuse it, its parts it may not


def elementwise(operations: int) -> Callable[[Node, Sizes], Cost]:
    """The cost of an op that reads and writes each value once, with `operations` per result."""

    def cost(node: Node, sizes: Sizes) -> Cost:
        return Cost(sizes.moved_bytes(node), operations * sum(sizes.num_elements(value) for value in node.outputs))

    return cost


def view(_: Node, __: Sizes) -> Cost:
    """The cost of reading an array another way: none."""
    return Cost()


def normal(rng: np.random.Generator, *shape: int, deviation: float = 1.0, mean: float = 0.0) -> Array:
    """Normal numbers in float32."""
    return rng.normal(mean, deviation, shape).astype(np.float32)
