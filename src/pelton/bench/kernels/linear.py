"""Linears: every scheme, the matrices of real models, few and many rows."""

from __future__ import annotations

from collections.abc import Sequence

from pelton.backends.cpu.weights import WeightStore
from pelton.bench.kernels.program import VOCAB_SIZE, Canvas, KernelProgram, KernelStep, make_limits, random_matrix
from pelton.checkpoint.scheme import get_scheme
from pelton.plan import WeightRef, ops

READER_ROWS = 64
CACHE_MULTIPLE = 3  # copies together are so many times the last cache, which may exist more than once


def make_linear(
    op: str, scheme: str, matrix: str, size_NK: tuple[int, int], *, max_rows: int, num_threads: int, cache_bytes: int
) -> KernelProgram:
    """One matrix, over as many copies as no cache holds. `op` is linear, linear_add or linear_gated.

    K is rounded up to whole blocks of the scheme: 896 is no multiple of 256, the block of the K-quants.
    """
    n, block = size_NK[0], get_scheme(scheme).block_size
    k = -(-size_NK[1] // block) * block
    canvas = Canvas(k)
    source = random_matrix(scheme, n, k)
    first = canvas.stored("0.weight", source)
    store = WeightStore(canvas.weights, exact=False)
    packed_bytes = store.packed_bytes(first)
    (activation,) = store.activation_kinds(first, is_wide=False)
    copies = -(-CACHE_MULTIPLE * cache_bytes // packed_bytes)
    refs = [first, *(canvas.stored(f"{copy}.weight", source) for copy in range(1, copies))]
    record_copies(canvas, op, refs)
    return KernelProgram(
        op=op,
        label="linear weight",
        facts={"scheme": scheme, "matrix": matrix, "n": n, "k": k},
        plan=canvas.finish(),
        node=next(node for node in canvas.recorder.nodes if node.op == op),
        weights=canvas.weights,
        copies=copies,
        arithmetic=activation.name.lower(),
        streams=True,
        limits=make_limits(num_threads, max_tokens=max_rows, max_context=max_rows),
    )


def record_copies(canvas: Canvas, op: str, refs: Sequence[WeightRef]) -> None:
    """The same rows through every weight."""
    recorder, x, n = canvas.recorder, canvas.x, refs[0].shape[0]
    if op == "linear":
        for ref in refs:
            ops.linear(recorder, x, ref)
    elif op == "linear_add":
        residual = ops.embedding(recorder, recorder.token_ids, canvas.dense("residual", VOCAB_SIZE, n))
        for ref in refs:
            ops.linear_add(recorder, x, residual, ref, None)
    else:
        # What reads the product decides the form in which it is written: 8-bit integers for a block scheme.
        reader = canvas.stored("reader", random_matrix("Q8_0", READER_ROWS, n // 2))
        for ref in refs:
            ops.linear(recorder, ops.linear_gated(recorder, x, ref, None, "silu"), reader)


def make_row_steps(rows: Sequence[int]) -> list[KernelStep]:
    """Steps of so many tokens of one request."""
    return [KernelStep(facts={"rows": count}, requests=((0, count),)) for count in rows]
