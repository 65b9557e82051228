"""The native CPU backend: a plan becomes one flat program of kernels, run by one call per step.

Compiled once, at load: ops are lowered, their buffers placed in one arena, weights packed by all threads. A step runs
with the GIL released and allocates only its result arrays. Results depend neither on threads nor on the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import final

import numpy as np

from pelton.backends.cpu import _native
from pelton.backends.cpu.buffer_plan import Buffer, View, assign_offsets, find_segments
from pelton.backends.cpu.lowering import Lowering
from pelton.backends.cpu.weight_cache import WeightCache
from pelton.backends.cpu.weights import WeightStore
from pelton.backends.executable import Backend, Bytes, Executable, Limits, SamplingInputs, StepInputs, StepResult
from pelton.checkpoint.weight import Weight
from pelton.errors import BackendError, InternalError
from pelton.plan import Plan
from pelton.plan.passes import drop_dead_nodes, fuse_gated, fuse_residual

CACHE_GROUP_TOKENS = 16
MAX_REPEAT = 4  # what the host costs is then a quarter per token; more would only delay who comes in between


@final
class CpuBackend(Backend):
    """Kernels for the instruction set of this machine."""

    name = "cpu"
    passes = (drop_dead_nodes, fuse_gated, fuse_residual)

    def __init__(self, cache: WeightCache | None = None, on_fraction: Callable[[float], None] | None = None) -> None:
        """Packed weights come from `cache` and go to it. `on_fraction` hears how much of them is there (0 to 1)."""
        self._cache = cache
        self._on_fraction = on_fraction or (lambda _: None)

    def compile(self, plan: Plan, weights: Mapping[str, Weight], limits: Limits) -> CpuExecutable:
        """Lower `plan` and pack its weights. Raises BackendError for an op, a weight or a limit that has no kernel."""
        if limits.block_size % CACHE_GROUP_TOKENS != 0 or limits.block_size < CACHE_GROUP_TOKENS:
            raise BackendError(
                f"block_size={limits.block_size} cannot be used on CPU: the attention kernel reads "
                f"{CACHE_GROUP_TOKENS} tokens at a time. Use 16, 32 or another multiple of 16."
            )
        if limits.wide_activations not in ("none", "likely", "head", "all"):
            raise BackendError(
                f"cpu: wide_activations={limits.wide_activations!r} does not say which linears are wide. "
                "Use none, likely, head or all."
            )
        if plan.output.shape[0] != "S" or len(plan.output.shape) != 2:
            raise BackendError(f"cpu: the plan's output {plan.output} is not one row of logits per row wanted.")
        store = WeightStore(weights, exact=limits.exact)
        try:
            lowering = Lowering(plan, store, limits)
            return CpuExecutable(lowering, store, plan, limits, self._cache, self._on_fraction)
        except ValueError as error:
            raise BackendError(f"cpu: {error}.") from None


@final
class CpuExecutable(Executable):
    """A plan as a native program, with its weights."""

    max_repeat = MAX_REPEAT

    def __init__(
        self,
        lowering: Lowering,
        store: WeightStore,
        plan: Plan,
        limits: Limits,
        cache: WeightCache | None,
        on_fraction: Callable[[float], None],
    ) -> None:
        self._kernels = [(op, kernel, why) for (op, kernel), why in lowering.kernels.items()]
        self._kv_block_bytes = lowering.kv_block_bytes
        self._vocab_size = int(plan.output.shape[1])
        self._kv_memory: Bytes | None = None
        segments = find_segments(lowering.ops)
        offsets, buffer_bytes = assign_offsets(lowering.ops, segments)
        no_table = np.iinfo(np.int32).max
        self._program = _native.Program(
            num_threads=limits.num_threads,
            max_num_tokens=limits.max_num_batched_tokens,
            max_num_requests=limits.max_num_requests,
            max_num_logits_rows=limits.max_num_logits_rows,
            block_size=limits.block_size,
            max_blocks_per_request=limits.max_blocks_per_request,
            vocab_size=self._vocab_size,
            token_rows=min(lowering.token_rows, default=no_table),
            position_rows=min(lowering.position_rows, default=no_table),
            buffer_bytes=buffer_bytes,
            packed_bytes=sum(
                store.packed_bytes(ref) for ref in (*lowering.matrices.values(), *lowering.gated_matrices.values())
            ),
            scratch_bytes=lowering.scratch_bytes,
            kv_block_bytes=self._kv_block_bytes,
        )

        store.place(self._program, lowering.matrices.values(), lowering.gated_matrices.values())
        self.is_from_cache = store.fill(self._program, limits.num_threads, cache, on_fraction)

        def place_buffer(buffer: Buffer) -> int:
            return offsets[buffer]

        def place(view: View) -> tuple[int, int]:
            return offsets[view.buffer] + 4 * view.first, view.stride

        self._labels: list[str] = []
        last = 0
        for op, segment in zip(lowering.ops, segments, strict=True):
            if segment > last:
                self._program.add_barrier()
                self._labels.append("barrier")
            op.emit(self._program, place, place_buffer)
            self._labels.append(op.label)
            last = segment
        self._program.set_logits(place(lowering.output))
        self._tables = store.tables

    @property
    def kv_bytes_per_block(self) -> int:
        return self._kv_block_bytes

    def bind_kv(self, memory: Bytes, num_blocks: int) -> None:
        """Use `memory` as the cache; what it holds does not matter."""
        assert memory.nbytes >= num_blocks * self._kv_block_bytes, "bind_kv: the memory is too small for its blocks"
        self._kv_memory = memory
        self._program.bind_kv(memory, num_blocks)

    def copy_block(self, source: int, target: int) -> None:
        """A block is contiguous over all layers."""
        assert self._kv_memory is not None, "copy_block: no cache is bound"
        size = self._kv_block_bytes
        self._kv_memory[target * size : (target + 1) * size] = self._kv_memory[source * size : (source + 1) * size]

    def run(self, inputs: StepInputs, *, want_logits: bool = False) -> StepResult:
        """Compute one step and sample. Raises InternalError, before anything is computed, if the arrays do not fit."""
        num_rows = len(inputs.logits_index_S)
        num_top = max(0, int(inputs.sampling.num_logprobs_S.max(initial=0)))
        ids_KS = np.empty((inputs.repeat, num_rows), np.int32)
        result = StepResult(
            token_ids_S=ids_KS[0],
            later_ids_KS=ids_KS[1:],
            logprob_S=np.empty(num_rows, np.float32),
            top_ids_SL=np.empty((num_rows, num_top), np.int32),
            top_logprobs_SL=np.empty((num_rows, num_top), np.float32),
            logits_SV=np.empty((num_rows, self._vocab_size), np.float32) if want_logits else None,
        )
        try:
            self._program.run(
                inputs.token_ids_T,
                inputs.positions_T,
                inputs.query_start_R1,
                inputs.context_len_R,
                inputs.block_table_RM,
                inputs.logits_index_S,
                sampling_tuple(inputs.sampling),
                ids_KS,
                result.logprob_S,
                result.top_ids_SL,
                result.top_logprobs_SL,
                result.logits_SV,
            )
        except ValueError as error:
            raise InternalError(f"cpu: {error}") from None
        return result

    def start_profile(self) -> None:
        self._program.start_profile()

    def profile(self) -> dict[str, float]:
        seconds: dict[str, float] = {}
        op_ns = self._program.op_ns()
        for label, ns in zip(self._profile_labels() if op_ns else [], op_ns, strict=True):
            seconds[label] = seconds.get(label, 0.0) + ns / 1e9
        return seconds

    def op_times(self) -> list[tuple[str, float]]:
        """(label, seconds since start_profile()) of each op, in order: until all threads had done it, sampling last."""
        op_ns = self._program.op_wall_ns()
        return [(label, ns / 1e9) for label, ns in zip(self._profile_labels() if op_ns else [], op_ns, strict=True)]

    def _profile_labels(self) -> list[str]:
        return [*self._labels, "sampling"]

    def explain(self) -> list[tuple[str, str, str]]:
        """Per op the kernels in use, with the storage scheme for linears."""
        return self._kernels


def sampling_tuple(sampling: SamplingInputs) -> tuple[object, ...]:
    """The arrays in the order in which the native side reads them: that of the fields."""
    s = sampling
    return (
        *(s.temperature_S, s.top_k_S, s.top_p_S, s.min_p_S, s.presence_S, s.frequency_S, s.repetition_S),
        *(s.seed_S, s.position_S, s.num_logprobs_S, s.history_ids, s.history_start_S1, s.history_num_prompt_S),
        *(s.bias_ids, s.bias_values, s.bias_start_S1),
    )
