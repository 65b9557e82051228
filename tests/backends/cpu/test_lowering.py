"""What becomes a view, what is written in place, what is quantized once, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest
from tests.steps import LIMITS, dense_weight
from tests.tiny_plans import tiny_plan

from pelton.backends.cpu.buffer_plan import find_segments
from pelton.backends.cpu.lowering import Lowering
from pelton.backends.cpu.weights import WeightStore
from pelton.errors import BackendError
from pelton.plan import Node, Recorder, WeightRef, ops

pytestmark = pytest.mark.cpu

TABLE = WeightRef("table", (9, 32))
SQUARE = WeightRef("square", (32, 32))
WEIGHTS = {
    "table": dense_weight("table", np.ones((9, 32), np.float32)),
    "square": dense_weight("square", np.ones((32, 32), np.float32)),
}


def lowered(p: Recorder, output) -> Lowering:
    return Lowering(p.plan(output), WeightStore(WEIGHTS, exact=False), LIMITS)


def test_an_op_writes_over_what_nobody_reads_again():
    p = Recorder()
    x = ops.embedding(p, p.token_ids, TABLE)
    lowering = lowered(p, ops.select_rows(p, ops.scale(p, x, 2.0)))
    assert len({buffer for op in lowering.ops[:2] for buffer in op.touches}) == 1


def test_what_is_read_later_is_kept():
    p = Recorder()
    x = ops.embedding(p, p.token_ids, TABLE)
    y = ops.scale(p, x, 2.0)
    lowering = lowered(p, ops.select_rows(p, ops.add(p, y, x)))
    assert len({buffer for op in lowering.ops[:2] for buffer in op.touches}) == 2


def test_a_piece_is_kept_while_the_whole_is_read():
    p = Recorder()
    x = ops.embedding(p, p.token_ids, TABLE)
    left, right = ops.split(p, x, (16, 16))
    doubled = ops.scale(p, left, 2.0)
    over = ops.add(p, doubled, right)
    lowering = lowered(p, ops.select_rows(p, over))
    assert len({buffer for op in lowering.ops[:3] for buffer in op.touches}) == 1, "pieces do not overlap"
    p = Recorder()
    x = ops.embedding(p, p.token_ids, TABLE)
    left, _ = ops.split(p, x, (16, 16))
    doubled = ops.scale(p, left, 2.0)
    joined = ops.linear(p, x, SQUARE)
    left_of_joined, _ = ops.split(p, joined, (16, 16))
    lowering = lowered(p, ops.select_rows(p, ops.add(p, doubled, left_of_joined)))
    assert lowering.ops[1].touches[0] is not lowering.ops[1].touches[1], "the linear reads the piece's old numbers"


def test_linears_on_one_value_share_its_quantization():
    p = Recorder()
    x = ops.embedding(p, p.token_ids, TABLE)
    y = ops.add(p, ops.linear(p, x, SQUARE), ops.linear(p, x, SQUARE))
    lowering = lowered(p, ops.select_rows(p, y))
    assert len(lowering.ops) == len(["embedding", "quantize", "linear", "linear", "add", "select_rows"])


def test_a_layer_has_ten_barriers_at_most():
    tiny = tiny_plan("llama_like")
    lowering = Lowering(tiny.plan, WeightStore(tiny.weights, exact=False), LIMITS)
    assert find_segments(lowering.ops)[-1] <= 10 * 2 + 4


def test_unknown_ops_are_refused_with_the_nearest_name():
    tiny = tiny_plan("llama_like")
    nodes = (Node("rms_nrom", (), (), (), ()), *tiny.plan.nodes)
    with pytest.raises(BackendError, match=r"'rms_nrom' has no native kernel. Did you mean 'rms_norm'"):
        Lowering(replace(tiny.plan, nodes=nodes), WeightStore(tiny.weights, exact=False), LIMITS)


def test_a_layer_has_one_cache():
    p = Recorder()
    x = ops.heads(p, ops.embedding(p, p.token_ids, TABLE), 2)
    y = ops.heads(p, ops.attention(p, x, x, x, 0, scale=1.0), 2)
    with pytest.raises(BackendError, match="layer 0"):
        lowered(p, ops.select_rows(p, ops.attention(p, y, y, y, 0, scale=1.0)))
