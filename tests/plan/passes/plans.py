"""Plans made by Hypothesis, and the proof that a rewrite computes the same."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from tests.steps import dense_weight, program, step
from tests.tiny_plans import TinyPlan, random_arrays

from pelton.backends.reference import ReferenceBackend
from pelton.plan import Plan, Recorder, Value, WeightRef, ops

WIDTH, VOCAB = 6, 11
SHAPES = {
    "embed": (VOCAB, WIDTH),
    "square": (WIDTH, WIDTH),
    "other_square": (WIDTH, WIDTH),
    "double": (2 * WIDTH, WIDTH),
    "bias": (WIDTH,),
    "double_bias": (2 * WIDTH,),
    "norm": (WIDTH,),
    "head": (VOCAB, WIDTH),
}
OPS = ("add", "linear", "linear_bias", "gated", "gated_bias", "scale", "activation", "rms_norm", "attention")


def ref(name: str) -> WeightRef:
    return WeightRef(name, SHAPES[name])


def record_one(p: Recorder, op: str, x: Value, other: Value, layer: int) -> list[Value]:
    """Record `op` on values [T, WIDTH]; what it adds to the values of that shape."""
    if op == "add":
        return [ops.add(p, x, other)]
    if op == "linear":
        return [ops.linear(p, x, ref("square"))]
    if op == "linear_bias":
        return [ops.linear(p, x, ref("other_square"), ref("bias"))]
    if op in ("gated", "gated_bias"):
        h = ops.linear(p, x, ref("double"), ref("double_bias") if op == "gated_bias" else None)
        gate, up = ops.split(p, h, (WIDTH, WIDTH))
        # Whether the halves are read, which forbids the fusion, is up to who draws from the values.
        return [ops.gated(p, h, "silu")] if layer % 2 else [ops.gated(p, h, "gelu_tanh"), gate, up]
    if op == "scale":
        return [ops.scale(p, x, -0.5)]
    if op == "activation":
        return [ops.activation(p, x, "relu")]
    if op == "rms_norm":
        return [ops.rms_norm(p, x, ref("norm"), 1e-5)]
    x_THD = ops.heads(p, x, 3)
    return [ops.attention(p, x_THD, ops.heads(p, other, 3), x_THD, layer, scale=0.7)]


@st.composite
def plans(draw: st.DrawFn) -> TinyPlan:
    """A plan of up to a dozen ops whose operands are any earlier values, the last ones more often."""
    p = Recorder()
    values = [ops.embedding(p, p.token_ids, ref("embed"))]
    for layer, op in enumerate(draw(st.lists(st.sampled_from(OPS), min_size=1, max_size=12))):
        x, other = (values[-1 - draw(st.integers(0, min(3, len(values) - 1)))] for _ in range(2))
        values += record_one(p, op, x, other, layer)
    x = ops.select_rows(p, values[-1 - draw(st.integers(0, min(2, len(values) - 1)))])
    plan = p.plan(x if draw(st.booleans()) else ops.linear(p, x, ref("head")))
    return TinyPlan(plan, random_arrays(SHAPES, seed=1))


def assert_same(before: Plan, after: Plan, tiny: TinyPlan) -> None:
    """Both plans give the same bits on the reference backend, over two steps of two requests."""
    results = []
    for plan in (before, after):
        weights = {name: dense_weight(name, tiny.arrays[name]) for name in plan.weights()}
        executable = program(ReferenceBackend("float64"), plan, weights)
        steps = (step([([1, 2, 3], 0)]), step([([4, 5], 3), ([6, 0, 1], 0)], block_tables=[[7], [9]]))
        results.append([executable.run(inputs, want_logits=True).logits_SV for inputs in steps])
    for one, two in zip(*results, strict=True):
        np.testing.assert_array_equal(one, two)
