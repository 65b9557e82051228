"""Ops that work on rows which an op before has just computed: norms, rotary, gates, quantization of activations."""

from __future__ import annotations

from dataclasses import replace

from pelton.bench.kernels.model_shape import ModelShape
from pelton.bench.kernels.program import Canvas, KernelProgram, make_limits, random_matrix
from pelton.plan import Node, ops

COPIES = 16  # one after the other with one barrier behind, which then weighs little
ROPE_BASE = 10000.0
SMALL_ROWS = 64  # of the matrices that only make the backend quantize


def make_rms_norm(shape: ModelShape, *, max_rows: int, num_threads: int) -> KernelProgram:
    """Norms of whole rows."""
    canvas = Canvas(shape.hidden_size)
    canvas.separate()
    weight = canvas.dense("norm", shape.hidden_size)
    x = canvas.x
    for _ in range(COPIES):
        x = ops.rms_norm(canvas.recorder, x, weight, 1e-6)
    return make_program("rms_norm", {"width": shape.hidden_size}, canvas, max_rows, num_threads)


def make_rotary(shape: ModelShape, *, max_rows: int, num_threads: int) -> KernelProgram:
    """The heads of the queries, turned by their positions."""
    width, half = shape.num_heads * shape.head_dim, shape.head_dim // 2
    canvas = Canvas(width)
    canvas.separate()
    inv_freq = tuple(ROPE_BASE ** (-i / half) for i in range(half))
    x = ops.heads(canvas.recorder, canvas.x, shape.num_heads)
    for _ in range(COPIES):
        x = ops.rotary(canvas.recorder, x, inv_freq)
    facts = {"heads": shape.num_heads, "head_dim": shape.head_dim}
    return make_program("rotary", facts, canvas, max_rows, num_threads)


def make_gated(shape: ModelShape, *, max_rows: int, num_threads: int) -> KernelProgram:
    """The gated activation between two matrices of the feed-forward part."""
    canvas = Canvas(2 * shape.intermediate_size)
    canvas.separate()
    for _ in range(COPIES):
        ops.gated(canvas.recorder, canvas.x, "silu")
    return make_program("gated", {"width": shape.intermediate_size}, canvas, max_rows, num_threads)


def make_quantize(shape: ModelShape, *, max_rows: int, num_threads: int) -> KernelProgram:
    """Rows brought into the form that linears of block schemes multiply: 8-bit integers with scales.

    No op of a plan: the backend puts it before a linear, with a barrier on either side, which its time holds.
    """
    width = shape.hidden_size
    canvas = Canvas(width)
    rows = [ops.scale(canvas.recorder, canvas.x, 1.0 + copy) for copy in range(COPIES)]
    canvas.separate()
    for copy, x in enumerate(rows):
        ops.linear(canvas.recorder, x, canvas.stored(f"{copy}.weight", random_matrix("Q8_0", SMALL_ROWS, width)))
    program = make_program("quantize", {"width": width}, canvas, max_rows, num_threads)
    return replace(program, num_others_before=1, num_others_behind=1)  # those of `separate` and of the head


def make_program(op: str, facts: dict[str, int], canvas: Canvas, max_rows: int, num_threads: int) -> KernelProgram:
    """The program of the nodes of `op` on `canvas`."""
    nodes: list[Node] = [node for node in canvas.recorder.nodes if node.op == op]
    return KernelProgram(
        op=op,
        label=op,
        facts=facts,
        plan=canvas.finish(),
        node=nodes[0] if nodes else None,
        weights=canvas.weights,
        copies=COPIES,
        arithmetic="float32",
        streams=False,
        limits=make_limits(num_threads, max_tokens=max_rows, max_context=max_rows),
    )
