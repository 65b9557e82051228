"""A small plan around one op, repeated, and the steps that it is timed at.

Invariant: what is measured is what the engine runs: the plan goes through the CPU backend, and its profile says how
long each op took. An op that streams weights or cache is repeated over copies that no cache holds together; one that
works on what was just computed is repeated on the same rows, and finds them in the cache as it does in a model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from pelton.backends.executable import Limits, SamplingInputs, StepInputs
from pelton.checkpoint.scheme import row_bytes
from pelton.checkpoint.weight import Tensor, Weight
from pelton.plan import Node, Plan, Recorder, Value, WeightRef, ops
from pelton.runner.direct_step import step_of

BLOCK_SIZE = 32
VOCAB_SIZE = 64  # of the embedding and the head around the op, which are not measured
SEPARATE_ROWS = 16
PATTERN_BYTES = 1 << 20
FINITE_MASK = 0xBF  # with bit 6 clear no float of two or four bytes, in any scheme, is infinite or not a number


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelProgram:
    """`copies` of one op in a plan. `label` is what a profile calls it, `node` one of them, for its cost."""

    op: str
    label: str
    facts: Mapping[str, Any]  # scheme, n, k: what a row of the result says besides
    plan: Plan
    node: Node | None  # None: sampling, which is no op of a plan
    weights: Mapping[str, Weight]
    copies: int
    arithmetic: str  # the peak that it is held against: int8, bfloat16 or float32
    streams: bool  # whether the copies together are larger than the caches
    limits: Limits
    num_blocks: int = 1
    num_others_before: int = 0  # ops with the same label that are not measured
    num_others_behind: int = 0
    kv_value_bytes: int = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelStep:
    """One step to time: what a row of the result says of it, and its requests (tokens computed, tokens new)."""

    facts: Mapping[str, Any]
    requests: tuple[tuple[int, int], ...]
    num_logits_rows: int = 1
    sampling: Mapping[str, float] = field(default_factory=dict)

    def make_inputs(self, limits: Limits, num_blocks: int) -> StepInputs:
        """The arrays of the step. Requests have blocks of their own, in random order as a server's are."""
        order = np.random.default_rng(0).permutation(num_blocks).tolist()
        parts: list[tuple[list[int], int, list[int]]] = []
        for computed, new in self.requests:
            count = -(-(computed + new) // limits.block_size)
            blocks, order = (order[:count], order[count:]) if num_blocks > 1 else ([0] * count, order)
            parts.append(([token % VOCAB_SIZE for token in range(new)], computed, blocks))
        inputs = step_of(parts, limits.max_blocks_per_request)
        rows = self.num_logits_rows
        return replace(
            inputs,
            logits_index_S=inputs.logits_index_S[:rows],
            sampling=make_sampling(inputs.sampling, rows, self.sampling),
        )


def make_sampling(greedy: SamplingInputs, num_rows: int, settings: Mapping[str, float]) -> SamplingInputs:
    """The first `num_rows` of `greedy`, with the same `settings` for each."""
    rows: dict[str, Any] = {}
    for name in SamplingInputs.__dataclass_fields__:
        array = getattr(greedy, name)
        if name.endswith("_S"):
            array = np.full(num_rows, settings[name[:-2]], array.dtype) if name[:-2] in settings else array[:num_rows]
        rows[name] = array[: num_rows + 1] if name.endswith("_S1") else array
    return SamplingInputs(**rows)


class Canvas:
    """Records a plan: begins with an embedding of `width`, ends with logits of a few rows."""

    def __init__(self, width: int) -> None:
        self.recorder = Recorder()
        self.weights: dict[str, Weight] = {}
        self.x = ops.embedding(self.recorder, self.recorder.token_ids, self.dense("embed", VOCAB_SIZE, width))

    def dense(self, name: str, *shape: int) -> WeightRef:
        """A random float32 weight."""
        values = np.random.default_rng(len(self.weights)).standard_normal(shape, dtype=np.float32)
        payload = values.reshape(-1, shape[-1]).view(np.uint8)
        self.weights[name] = Weight(name, (Tensor(name, shape, "F32", payload),))
        return WeightRef(name, shape)

    def stored(self, name: str, payload_of: Tensor) -> WeightRef:
        """A weight with the bytes of `payload_of`; copies of a matrix share them until they are packed."""
        self.weights[name] = Weight(name, (payload_of,))
        return WeightRef(name, (payload_of.shape[0], payload_of.shape[1]))

    def separate(self) -> None:
        """Put a barrier before what follows, so that its time holds nothing else: a linear that nobody reads."""
        weight = self.dense(f"separate{len(self.weights)}", SEPARATE_ROWS, int(self.x.shape[-1]))
        ops.linear(self.recorder, self.x, weight)

    def finish(self, last: Value | None = None) -> Plan:
        """The plan, with logits of `last` (or of what came first) at its end."""
        rows = ops.select_rows(self.recorder, last or self.x)
        head = self.dense("head", VOCAB_SIZE, int(rows.shape[-1]))
        return self.recorder.plan(ops.linear(self.recorder, rows, head))


def random_matrix(scheme: str, n: int, k: int) -> Tensor:
    """A matrix of `scheme` with random bytes, all of whose numbers are finite."""
    pattern = np.random.default_rng(0).integers(0, 256, PATTERN_BYTES, dtype=np.uint8) & np.uint8(FINITE_MASK)
    width = row_bytes(scheme, k)
    return Tensor("matrix", (n, k), scheme, np.resize(pattern, n * width).reshape(n, width))


def make_limits(
    num_threads: int, *, max_tokens: int, max_requests: int = 1, max_rows: int = 1, max_context: int
) -> Limits:
    """The sizes of a program for these steps."""
    return Limits(
        max_num_batched_tokens=max_tokens,
        max_num_requests=max_requests,
        max_num_logits_rows=max_rows,
        block_size=BLOCK_SIZE,
        max_blocks_per_request=-(-max_context // BLOCK_SIZE),
        num_threads=num_threads,
    )
