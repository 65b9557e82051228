"""Times the op of a program, from the profile of every run: until the last thread has done its part.

The best run counts as the kernel's time, the median is given beside it. Python takes part between runs only.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from pelton.backends.cpu import CpuBackend
from pelton.backends.cpu.weights import WeightStore
from pelton.bench.calibrate import Calibration
from pelton.bench.kernels.program import KernelProgram, KernelStep
from pelton.bench.record import Row
from pelton.plan.op_spec import Cost, Sizes
from pelton.plan.registry import OPS

MIN_RUNS = 3
VALUE_BYTES = 4
CACHE_FILL = 0x3C  # two of them are 0.0115 in bfloat16; pages that were never written would all be one page of zeros

OpTime = tuple[str, float]  # label, seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Seconds of one op over the runs of a step."""

    best_s: float
    median_s: float
    num_runs: int


@final
class CompiledKernel:
    """A program ready to run, with its cache."""

    def __init__(self, program: KernelProgram) -> None:
        self.program = program
        self._executable = CpuBackend().compile(program.plan, program.weights, program.limits)
        num_bytes = program.num_blocks * self._executable.kv_bytes_per_block
        memory = np.full(num_bytes + 64, CACHE_FILL, np.uint8)
        self._executable.bind_kv(memory[-memory.ctypes.data % 64 :], program.num_blocks)

    def measure(self, step: KernelStep, seconds: float) -> Timing:
        """Time `step` for about `seconds`, at least MIN_RUNS times; a step that takes longer runs once."""
        inputs = step.make_inputs(self.program.limits, self.program.num_blocks)
        times: list[float] = []
        start_s = time.perf_counter()
        is_first = True
        while is_first or len(times) < MIN_RUNS or time.perf_counter() - start_s < seconds:
            self._executable.start_profile()
            self._executable.run(inputs)
            taken = compute_op_time(self._executable.op_times(), self.program)
            is_slow = is_first and time.perf_counter() - start_s > seconds
            if not is_first or is_slow:  # the first run brings memory and caches into their state
                times.append(taken)
            is_first = False
            if is_slow:
                break
        return Timing(best_s=min(times), median_s=statistics.median(times), num_runs=len(times))


def compute_op_time(op_times: Sequence[OpTime], program: KernelProgram) -> float:
    """Seconds of one copy of the program's op: all ops with its label, over the copies."""
    labels = [label for label, _ in op_times]
    places = [i for i, label in enumerate(labels) if label == program.label]
    places = places[program.num_others_before : len(places) - program.num_others_behind]
    assert places, f"the profile has no {program.label!r} among {sorted(set(labels))}"
    return sum(op_times[i][1] for i in places) / program.copies


def compute_cost(program: KernelProgram, step: KernelStep) -> Cost:
    """What one copy of the op needs at least: bytes as they lie packed in memory, and operations."""
    tokens = sum(new for _, new in step.requests)
    if program.op == "sampling":
        return Cost(program.facts["vocab_size"] * step.num_logits_rows * VALUE_BYTES, 0)
    if program.op == "quantize":
        return Cost(tokens * program.facts["width"] * (VALUE_BYTES + 1), 3 * tokens * program.facts["width"])
    if program.op == "kv_write":
        numbers = 2 * program.facts["kv_heads"] * program.facts["head_dim"]
        return Cost(tokens * numbers * (VALUE_BYTES + program.kv_value_bytes), 0)
    assert program.node is not None, f"{program.op} has no node to take a cost from"
    store = WeightStore(program.weights, exact=False)
    is_matrix = OPS[program.node.op].matrix is not None
    sizes = Sizes(
        requests=step.requests,
        num_logits_rows=step.num_logits_rows,
        weight_bytes={
            ref.name: store.packed_bytes(ref) if is_matrix else VALUE_BYTES * ref.shape[0]
            for ref in program.node.weights
            if ref is not None
        },
        value_bytes=VALUE_BYTES,
        kv_value_bytes=program.kv_value_bytes,
    )
    return OPS[program.node.op].cost(program.node, sizes)


def make_row(program: KernelProgram, step: KernelStep, timing: Timing, cost: Cost, limits: Calibration) -> Row:
    """A result: time, rates, and the part of this minute's limit that they are."""
    bytes_s = cost.num_bytes / limits.all_threads.read_bytes_per_s
    operations_s = cost.num_operations / limits.peak_of(program.arithmetic)
    memory = "memory" if program.streams else "cache"  # where memory is no limit, rows may be above 100 %
    return {
        "op": program.op,
        **program.facts,
        **step.facts,
        "isa": limits.isa,
        "threads": program.limits.num_threads,
        "time_us": timing.best_s * 1e6,
        "median_us": timing.median_s * 1e6,
        "gb_per_s": cost.num_bytes / timing.best_s / 1e9,
        "gop_per_s": cost.num_operations / timing.best_s / 1e9,
        "limited_by": memory if bytes_s >= operations_s else program.arithmetic,
        "percent_of_limit": 100 * max(bytes_s, operations_s) / timing.best_s,
        "streams": program.streams,
        "copies": program.copies,
        "runs": timing.num_runs,
        "state": limits.state,
    }
