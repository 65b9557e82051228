import pytest

from pelton.bench.kernels.measure import CompiledKernel, compute_cost
from pelton.bench.kernels.model_shape import ModelShape
from pelton.bench.kernels.sampling import SAMPLING, make_sampling_program, make_sampling_step

pytestmark = pytest.mark.cpu

SHAPE = ModelShape(hidden_size=64, intermediate_size=96, num_heads=4, num_kv_heads=2, head_dim=16, vocab_size=300)


@pytest.mark.parametrize("name", SAMPLING)
def test_every_way_takes_time(name: str):
    program = make_sampling_program(SHAPE, max_rows=3, num_threads=2)
    step = make_sampling_step(name, 3)
    assert CompiledKernel(program).measure(step, 0.001).best_s > 0
    assert compute_cost(program, step).num_bytes == 3 * 300 * 4
    assert step.facts == {"sampling": name, "rows": 3}
