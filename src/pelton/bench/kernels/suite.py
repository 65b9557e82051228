"""Which kernels are measured: ops x sizes x instruction sets.

Invariant: the limits of the machine are measured anew before each program, so a row is held against its own minute.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pelton.backends.cpu import get_isa, set_isa
from pelton.bench.calibrate import QUICK_BYTES, calibrate_quickly
from pelton.bench.kernels.attention import make_attention, make_decode_step, make_prefill_step
from pelton.bench.kernels.linear import make_linear, make_row_steps
from pelton.bench.kernels.measure import CompiledKernel, compute_cost, make_row
from pelton.bench.kernels.model_shape import MODEL_SHAPES, ModelShape
from pelton.bench.kernels.program import KernelProgram, KernelStep
from pelton.bench.kernels.row_op import make_gated, make_quantize, make_rms_norm, make_rotary
from pelton.bench.kernels.sampling import SAMPLING, make_sampling_program, make_sampling_step
from pelton.bench.kernels.selection import LINEARS, MATRICES, Selection
from pelton.bench.record import Row

# The matrices that a model runs through a fused op; every matrix goes through the plain one.
FUSED_MATRICES = {"linear_add": ("o", "down"), "linear_gated": ("gate_up",)}
USUAL_REQUESTS = (1, 8, 32)
CACHE_SIZE = Path("/sys/devices/system/cpu/cpu0/cache/index3/size")
DEFAULT_CACHE_BYTES = 32 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """A selection on a machine."""

    selection: Selection
    num_threads: int
    cache_bytes: int  # the last cache, which copies must not fit into
    seconds: float  # for each row of the result
    read_bytes: int = QUICK_BYTES  # that calibrations read

    @property
    def shape(self) -> ModelShape:
        """The sizes of the model that was chosen."""
        return MODEL_SHAPES[self.selection.shape]

    @property
    def max_rows(self) -> int:
        """The most rows that any step has."""
        return max(self.selection.rows)


MakeProgram = Callable[[], KernelProgram]
Group = tuple[MakeProgram, list[KernelStep]]


def list_groups(suite: Suite) -> list[Group]:
    """Programs, not yet made, and the steps that each is timed at."""
    rows = suite.selection.rows
    groups: list[Group] = []
    for op in suite.selection.ops:
        if op in LINEARS:
            groups += list_linears(suite, op)
        elif op in ("attention", "kv_write"):
            groups += list_attentions(suite, op)
        elif op == "sampling":
            groups.append(make_sampling_group(suite))
        else:
            groups.append((partial(make_row_op, suite, op), make_row_steps(rows)))
    return groups


def list_linears(suite: Suite, op: str) -> Iterator[Group]:
    """One program for each scheme and matrix."""
    for scheme in suite.selection.schemes:
        for matrix in suite.selection.matrices:
            if matrix in FUSED_MATRICES.get(op, MATRICES):
                make = partial(
                    make_linear,
                    op,
                    scheme,
                    matrix,
                    suite.shape.matrices[matrix],
                    max_rows=suite.max_rows,
                    num_threads=suite.num_threads,
                    cache_bytes=suite.cache_bytes,
                )
                yield make, make_row_steps(suite.selection.rows)


def list_attentions(suite: Suite, label: str) -> Iterator[Group]:
    """Decode at several numbers of requests, and prefill, at each context; each has a cache of its own size."""
    for context in suite.selection.contexts:
        steps = [make_decode_step(count, context) for count in get_request_counts(suite)]
        for step in [*steps, make_prefill_step(context)]:
            make = partial(
                make_attention,
                label,
                suite.shape,
                step,
                num_threads=suite.num_threads,
                cache_bytes=suite.cache_bytes,
            )
            yield make, [step]


def make_sampling_group(suite: Suite) -> Group:
    """Every way of sampling."""
    counts = get_request_counts(suite)
    make = partial(make_sampling_program, suite.shape, max_rows=max(counts), num_threads=suite.num_threads)
    return make, [make_sampling_step(name, count) for name in SAMPLING for count in counts]


def get_request_counts(suite: Suite) -> list[int]:
    """Numbers of requests for what has one row of each: the usual ones among the rows, or the fewest rows."""
    rows = suite.selection.rows
    return [count for count in rows if count in USUAL_REQUESTS] or [min(rows)]


def make_row_op(suite: Suite, op: str) -> KernelProgram:
    """The program of an op on rows."""
    make = {"rms_norm": make_rms_norm, "rotary": make_rotary, "gated": make_gated, "quantize": make_quantize}[op]
    return make(suite.shape, max_rows=suite.max_rows, num_threads=suite.num_threads)


def count_rows(suite: Suite) -> int:
    """How many results `measure_kernels` will yield."""
    return len(suite.selection.isas) * sum(len(steps) for _, steps in list_groups(suite))


def measure_kernels(suite: Suite) -> Iterator[Row]:
    """Every result of `suite`, program by program."""
    for isa in suite.selection.isas:
        with use_isa(isa):
            for make, steps in list_groups(suite):
                program = make()
                kernel = CompiledKernel(program)
                limits = calibrate_quickly(num_threads=suite.num_threads, read_bytes=suite.read_bytes)
                for step in steps:
                    timing = kernel.measure(step, suite.seconds)
                    yield make_row(program, step, timing, compute_cost(program, step), limits)


@contextmanager
def use_isa(name: str) -> Iterator[None]:
    """Kernels of this instruction set for programs that are compiled within."""
    before = get_isa()
    set_isa(name)
    try:
        yield
    finally:
        set_isa(before)


def read_cache_bytes(path: Path = CACHE_SIZE) -> int:
    """The size of the last cache that the first CPU sees."""
    try:
        text = path.read_text().strip()
    except OSError:
        return DEFAULT_CACHE_BYTES
    return int(text.rstrip("KM")) << {"K": 10, "M": 20}.get(text[-1:], 0)
