import pytest

from pelton.bench.kernels.attention import make_attention, make_decode_step, make_prefill_step
from pelton.bench.kernels.measure import CompiledKernel, compute_cost
from pelton.bench.kernels.model_shape import ModelShape
from pelton.bench.kernels.program import KernelStep

pytestmark = pytest.mark.cpu

SHAPE = ModelShape(hidden_size=64, intermediate_size=96, num_heads=4, num_kv_heads=2, head_dim=16, vocab_size=300)


@pytest.mark.parametrize("label", ["attention", "kv_write"])
@pytest.mark.parametrize("step", [make_decode_step(3, 70), make_prefill_step(70), make_prefill_step(200)])
def test_each_takes_time(label: str, step: KernelStep):
    program = make_attention(label, SHAPE, step, num_threads=1, cache_bytes=10_000)
    timing = CompiledKernel(program).measure(step, 0.001)
    assert timing.best_s > 0
    assert compute_cost(program, step).num_bytes > 0


def test_the_context_counts_the_new_tokens():
    assert make_decode_step(2, 512).requests == ((511, 1), (511, 1))
    assert make_prefill_step(512).requests == ((384, 128),)
    assert make_prefill_step(70).requests == ((0, 70),)


def test_a_small_cache_is_said_not_to_stream():
    step = make_decode_step(1, 32)
    program = make_attention("attention", SHAPE, step, num_threads=1, cache_bytes=1 << 30)
    assert not program.streams
    assert make_attention("attention", SHAPE, step, num_threads=1, cache_bytes=1000).streams
