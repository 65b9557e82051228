"""Sampling: one row of logits per request, greedy or with the filters that servers are asked for."""

from __future__ import annotations

from collections.abc import Mapping

from pelton.bench.kernels.model_shape import ModelShape
from pelton.bench.kernels.program import Canvas, KernelProgram, KernelStep, make_limits
from pelton.plan import ops

WIDTH = 32  # of the rows that the logits come from, which is not measured

SAMPLING: Mapping[str, Mapping[str, float]] = {
    "greedy": {},
    "temperature": {"temperature": 0.8},
    "top_k top_p": {"temperature": 0.8, "top_k": 40, "top_p": 0.95},
    "top_p": {"temperature": 0.8, "top_p": 0.95},
}


def make_sampling_program(shape: ModelShape, *, max_rows: int, num_threads: int) -> KernelProgram:
    """A head that is as cheap as it can be, and sampling behind it."""
    canvas = Canvas(WIDTH)
    rows = ops.select_rows(canvas.recorder, canvas.x)
    head = canvas.dense("head", shape.vocab_size, WIDTH)  # logits have a deviation of about 6
    return KernelProgram(
        op="sampling",
        label="sampling",
        facts={"vocab_size": shape.vocab_size},
        plan=canvas.recorder.plan(ops.linear(canvas.recorder, rows, head)),
        node=None,
        weights=canvas.weights,
        copies=1,
        arithmetic="float32",
        streams=False,
        limits=make_limits(num_threads, max_tokens=max_rows, max_rows=max_rows, max_context=max_rows),
    )


def make_sampling_step(name: str, rows: int) -> KernelStep:
    """`rows` rows, sampled as `name` says."""
    return KernelStep(
        facts={"sampling": name, "rows": rows},
        requests=((0, rows),),
        num_logits_rows=rows,
        sampling=SAMPLING[name],
    )
