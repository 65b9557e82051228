"""Runs a plan node by node in numpy: the definition of what every other backend computes, and their oracle.

Slow and plain on purpose. Values live until their last use. Weights are dequantized to dense arrays, so a model needs
four bytes per weight in float32. The order of sums is numpy's: rounding may depend on the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Literal, final

import numpy as np

from pelton.backends.executable import Backend, Bytes, Executable, Limits, StepInputs, StepResult
from pelton.backends.key_balance import compute_key_balance
from pelton.backends.reference import elementwise, experts, linear, norm, rotary, shape
from pelton.backends.reference.array import Array
from pelton.backends.reference.attention import StepContext, attention, select_rows
from pelton.backends.reference.dense import DenseWeights
from pelton.backends.reference.kv_cache import ROUNDING, KVCache, cached_layers
from pelton.backends.reference.sampling import sample
from pelton.backends.reference.step_check import check_step
from pelton.checkpoint.weight import Weight
from pelton.errors import BackendError, nearest
from pelton.plan import Node, Plan

Definition = Callable[..., Any]

DEFINITIONS: Mapping[str, Definition] = MappingProxyType(
    {
        "activation": elementwise.activation,
        "add": elementwise.add,
        "embedding": linear.embedding,
        "experts": experts.experts,
        "gated": elementwise.gated,
        "heads": shape.heads,
        "layer_norm": norm.layer_norm,
        "linear": linear.linear,
        "linear_add": linear.linear_add,
        "linear_gated": linear.linear_gated,
        "rms_norm": norm.rms_norm,
        "rotary": rotary.rotary,
        "route": experts.route,
        "scale": elementwise.scale,
        "sigmoid_scale": elementwise.sigmoid_scale,
        "softcap": elementwise.softcap,
        "split": shape.split,
    }
)
# These also get the step: they look at the cache, or at which rows want logits.
STEP_DEFINITIONS: Mapping[str, Definition] = MappingProxyType({"attention": attention, "select_rows": select_rows})


Observer = Callable[[Node, tuple[Array, ...]], None]


def ignore_node(node: Node, outputs: tuple[Array, ...]) -> None:
    """The observer who looks at nothing."""


@final
class ReferenceBackend(Backend):
    """numpy, in float32 or float64. `on_node` is shown what each node of a step gives."""

    name = "reference"

    def __init__(self, dtype: Literal["float32", "float64"] = "float32", *, on_node: Observer = ignore_node) -> None:
        self.dtype: np.dtype[np.floating[Any]] = np.dtype(dtype)
        self._on_node = on_node

    def compile(self, plan: Plan, weights: Mapping[str, Weight], limits: Limits) -> ReferenceExecutable:
        """Check that every op is defined and every weight is there."""
        known = [*DEFINITIONS, *STEP_DEFINITIONS]
        for node in plan.nodes:
            if node.op not in known:
                raise BackendError(f"reference: op {node.op!r} is not defined. {nearest(node.op, known)}")
        for name, ref in plan.weights().items():
            if name not in weights:
                raise BackendError(f"reference: the plan reads weight {name!r}, which is not among those loaded.")
            if weights[name].shape != ref.shape:
                raise BackendError(f"reference: weight {name!r} has shape {weights[name].shape}, the plan says {ref}.")
        if limits.kv_dtype not in ROUNDING:
            raise BackendError(
                f"reference: keys and values cannot be stored as {limits.kv_dtype!r}. "
                f"{nearest(limits.kv_dtype, ROUNDING)}"
            )
        return ReferenceExecutable(plan, DenseWeights(weights, self.dtype), limits, on_node=self._on_node)


def find_key_balances(plan: Plan, weights: Mapping[str, Weight]) -> dict[int, Array]:
    """By layer, what keys are divided by before they are rounded to int8."""
    found = {}
    for node in plan.nodes:
        if node.op == "attention":
            balance_KD = compute_key_balance(plan, node, lambda ref: weights[ref.name])
            if balance_KD is not None:
                found[int(str(node.attribute("layer")))] = balance_KD
    return found


@final
class ReferenceExecutable(Executable):
    """A plan that numpy runs."""

    def __init__(self, plan: Plan, weights: DenseWeights, limits: Limits, *, on_node: Observer = ignore_node) -> None:
        self._on_node = on_node
        self._plan = plan
        self._weights = weights
        self._limits = limits
        balances = find_key_balances(plan, weights.weights) if limits.kv_dtype == "int8" else {}
        self._cache = KVCache(cached_layers(plan), limits.block_size, weights.dtype, limits.kv_dtype, balances)
        self._num_blocks = 0
        self._last_use = {value.id: i for i, node in enumerate(plan.nodes) for value in node.inputs}

    @property
    def kv_bytes_per_block(self) -> int:
        return self._cache.bytes_per_block

    def bind_kv(self, memory: Bytes, num_blocks: int) -> None:
        """Lay the cache out in `memory`."""
        self._cache.bind(memory, num_blocks)
        self._num_blocks = num_blocks

    def copy_block(self, source: int, target: int) -> None:
        """Slot by slot, layer by layer."""
        self._cache.copy_block(source, target)

    def run(self, inputs: StepInputs, *, want_logits: bool = False) -> StepResult:
        """Compute one step and sample."""
        check_step(inputs, self._limits, self._num_blocks)
        logits_SV = self.compute(inputs).astype(np.float32, copy=False)
        return sample(logits_SV, inputs.sampling, want_logits=want_logits)

    def compute(self, inputs: StepInputs) -> Array:
        """The plan's output in the dtype of the program, without sampling."""
        context = StepContext(inputs, self._cache)
        token_ids, positions = self._plan.inputs
        values: dict[int, Any] = {token_ids.id: inputs.token_ids_T, positions.id: inputs.positions_T}
        for i, node in enumerate(self._plan.nodes):
            outputs = self._apply(node, values, context)
            self._on_node(node, outputs)
            values.update((value.id, array) for value, array in zip(node.outputs, outputs, strict=True))
            for value in node.inputs:
                if self._last_use[value.id] == i and value != self._plan.output:
                    values.pop(value.id, None)
        output: Array = values[self._plan.output.id]
        return output

    def _apply(self, node: Node, values: Mapping[int, Any], context: StepContext) -> tuple[Array, ...]:
        operands = [values[value.id] for value in node.inputs]
        operands += [None if ref is None else self._weights[ref.name] for ref in node.weights]
        attributes: dict[str, Any] = dict(node.attributes)
        if node.op in STEP_DEFINITIONS:
            result = STEP_DEFINITIONS[node.op](context, *operands, **attributes)
        else:
            result = DEFINITIONS[node.op](*operands, **attributes)
        return result if isinstance(result, tuple) else (result,)

    def explain(self) -> list[tuple[str, str, str]]:
        """One line per op: numpy runs them all."""
        kernel = f"numpy {self._weights.dtype}"
        return [(op, kernel, "the definition of the op") for op in dict.fromkeys(node.op for node in self._plan.nodes)]
