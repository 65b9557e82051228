"""A case of one op as a whole plan, and the steps that run it.

An Executable takes steps and gives logits, so a case is wrapped: its inputs are rows of tables (token t reads row t),
and its result is selected as if it were logits. A result with heads [T, H, D] becomes rows by an attention with a
window of one token, which is the identity on its values. So every backend is tried through the same door that serves.
Two steps run: the first half of the tokens; then the second half, batched with all tokens reversed as another request.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from tests.conformance.scheme import random_weight
from tests.steps import dense_weight, program, step

from pelton.backends.executable import Backend, Limits, StepInputs
from pelton.checkpoint.weight import Weight
from pelton.plan import Plan, Recorder, Value, WeightRef, ops
from pelton.plan.op_spec import Case, OpSpec

LIMITS = Limits(
    max_num_batched_tokens=192,
    max_num_requests=2,
    max_num_logits_rows=192,
    block_size=16,
    max_blocks_per_request=8,
    num_threads=2,
)


@dataclass(frozen=True, slots=True)
class OneOp:
    """Plans that show each result of one op, with their weights and steps."""

    plans: tuple[Plan, ...]
    weights: dict[str, Weight]
    steps: tuple[StepInputs, ...]

    def run(self, backend: Backend, *, exact: bool = False) -> list[npt.NDArray[Any]]:
        """The rows of every result, from `backend`."""
        results = []
        for plan in self.plans:
            weights = {name: self.weights[name] for name in plan.weights()}
            executable = program(backend, plan, weights, replace(LIMITS, exact=exact), num_blocks=16)
            rows = [executable.run(inputs, want_logits=True).logits_SV for inputs in self.steps]
            assert all(row is not None for row in rows)
            results.append(np.concatenate(rows))
        return results


def one_op(spec: OpSpec, case: Case, scheme: str = "F32") -> OneOp:
    """`case` wrapped; the matrix of the op is stored as `scheme`."""
    weights: dict[str, Weight] = {}
    for i, array in enumerate(case.weights):
        if array is not None:
            name = f"weight.{i}"
            weights[name] = random_weight(name, array, scheme) if i == spec.matrix else dense_weight(name, array)
    for i, array in enumerate(case.inputs):
        if array.dtype == np.float32:
            weights[f"input.{i}"] = dense_weight(f"input.{i}", array.reshape(len(array), -1))
    plans: list[Plan] = []
    num_results = 1
    while len(plans) < num_results:
        recorder = Recorder()
        results = record_case(recorder, spec, case, weights)
        num_results = len(results)
        plans.append(recorder.plan(as_rows(recorder, results[len(plans)])))
    return OneOp(tuple(plans), weights, steps_of(case))


def record_case(p: Recorder, spec: OpSpec, case: Case, weights: dict[str, Weight]) -> tuple[Value, ...]:
    """Record the inputs and the op; its results."""
    refs = [
        None if array is None else WeightRef(f"weight.{i}", weights[f"weight.{i}"].shape)
        for i, array in enumerate(case.weights)
    ]
    values: list[Value] = []
    for i, array in enumerate(case.inputs):
        value = p.token_ids
        if array.dtype == np.float32:
            value = ops.embedding(p, p.token_ids, WeightRef(f"input.{i}", weights[f"input.{i}"].shape))
            value = ops.heads(p, value, array.shape[1]) if array.ndim == 3 else value
        values.append(value)
    result = spec.record(p, *values, *refs, **case.attributes)
    return result if isinstance(result, tuple) else (result,)


def as_rows(p: Recorder, value: Value) -> Value:
    """`value` as the logits of the step."""
    if len(value.shape) == 3:
        value = ops.attention(p, value, value, value, 0, scale=1.0, window=1)
    return ops.select_rows(p, value) if value.shape[0] == "T" else value


def steps_of(case: Case) -> tuple[StepInputs, ...]:
    """Half of the tokens, then the rest together with all of them reversed; before both, what stands before them."""
    first = case.inputs[0]
    tokens = first.tolist() if first.dtype == np.int32 else list(range(len(first)))
    half, start = len(tokens) // 2, case.first_position
    rest = [(tokens[half:], start + half), (tokens[::-1], start)]
    requests = [[(tokens[:half], start)], rest]
    if start > 0:
        requests.insert(0, [(tokens[:1] * start, 0)] * 2)
    return tuple(step(pieces, limits=LIMITS) for pieces in requests if pieces[0][0])
