import pytest

from pelton.bench.kernels.linear import make_row_steps
from pelton.bench.kernels.measure import CompiledKernel, compute_cost
from pelton.bench.kernels.model_shape import ModelShape
from pelton.bench.kernels.row_op import make_gated, make_quantize, make_rms_norm, make_rotary

pytestmark = pytest.mark.cpu

SHAPE = ModelShape(hidden_size=64, intermediate_size=96, num_heads=4, num_kv_heads=2, head_dim=16, vocab_size=300)


@pytest.mark.parametrize("num_threads", [1, 2])
@pytest.mark.parametrize("make", [make_rms_norm, make_rotary, make_gated, make_quantize])
def test_each_takes_time_with_fewer_rows_than_threads_too(make, num_threads: int):
    program = make(SHAPE, max_rows=4, num_threads=num_threads)
    kernel = CompiledKernel(program)
    for step in make_row_steps([1, 4]):
        assert kernel.measure(step, 0.001).best_s > 0
        assert compute_cost(program, step).num_bytes > 0
    assert not program.streams
