import numpy as np
import pytest

from pelton.bench.kernels.program import BLOCK_SIZE, Canvas, KernelStep, make_limits, random_matrix
from pelton.checkpoint.dequantize import dequantize
from pelton.checkpoint.scheme import USABLE
from pelton.plan import ops

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("scheme", sorted(USABLE))
def test_random_bytes_are_finite_numbers_in_every_scheme(scheme: str):
    matrix = random_matrix(scheme, 3, 512)
    values = dequantize(matrix)
    assert values.shape == (3, 512)
    assert np.isfinite(values).all()
    assert np.count_nonzero(values) > 100


def test_requests_have_blocks_of_their_own():
    step = KernelStep(facts={}, requests=((BLOCK_SIZE, 1), (0, 2), (2 * BLOCK_SIZE - 1, 1)), num_logits_rows=3)
    limits = make_limits(1, max_tokens=4, max_requests=3, max_rows=3, max_context=2 * BLOCK_SIZE)
    inputs = step.make_inputs(limits, 5)
    assert inputs.positions_T.tolist() == [BLOCK_SIZE, 0, 1, 2 * BLOCK_SIZE - 1]
    assert inputs.context_len_R.tolist() == [BLOCK_SIZE + 1, 2, 2 * BLOCK_SIZE]
    used = [block for block in inputs.block_table_RM.ravel().tolist() if block >= 0]
    assert sorted(used) == [0, 1, 2, 3, 4]


def test_only_so_many_rows_are_sampled_and_as_asked():
    step = KernelStep(facts={}, requests=((0, 9),), num_logits_rows=2, sampling={"temperature": 0.5, "top_k": 40})
    inputs = step.make_inputs(make_limits(1, max_tokens=9, max_rows=2, max_context=9), 1)
    assert len(inputs.logits_index_S) == 2
    assert inputs.sampling.temperature_S.tolist() == [0.5, 0.5]
    assert inputs.sampling.top_k_S.tolist() == [40, 40]
    assert inputs.sampling.history_start_S1.tolist() == [0, 0, 0]
    assert len(inputs.sampling.seed_S) == 2


def test_a_canvas_ends_in_logits():
    canvas = Canvas(24)
    canvas.separate()
    ops.scale(canvas.recorder, canvas.x, 2.0)
    plan = canvas.finish()
    assert [node.op for node in plan.nodes] == ["embedding", "linear", "scale", "select_rows", "linear"]
    assert plan.output.shape[0] == "S"
    assert plan.weights().keys() == canvas.weights.keys()
