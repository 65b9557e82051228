import pytest

from pelton.backends.cpu.weights import WeightStore
from pelton.bench.kernels.linear import CACHE_MULTIPLE, make_linear, make_row_steps
from pelton.bench.kernels.measure import CompiledKernel, compute_cost

pytestmark = pytest.mark.cpu

CACHE_BYTES = 100_000


@pytest.mark.parametrize("scheme", ["Q4_0", "Q5_0", "Q8_0", "Q4_K", "Q6_K", "BF16", "F32"])
@pytest.mark.parametrize("op", ["linear", "linear_add", "linear_gated"])
def test_copies_are_larger_than_the_cache_and_take_time(op: str, scheme: str):
    program = make_linear(op, scheme, "qkv", (128, 96), max_rows=4, num_threads=1, cache_bytes=CACHE_BYTES)
    k = 256 if scheme.endswith("K") else 96
    assert (program.facts["n"], program.facts["k"], program.op) == (128, k, op)
    store = WeightStore(program.weights, exact=False)
    assert program.node is not None
    weight = program.node.weights[0]
    assert weight is not None
    assert program.copies * store.packed_bytes(weight) >= CACHE_MULTIPLE * CACHE_BYTES
    kernel = CompiledKernel(program)
    for step in make_row_steps([1, 4]):
        assert kernel.measure(step, 0.001).best_s > 0
        cost = compute_cost(program, step)
        rows = step.facts["rows"]
        assert cost.num_operations >= 2 * rows * 128 * k
        assert cost.num_bytes > store.packed_bytes(weight)


@pytest.mark.parametrize(("scheme", "arithmetic"), [("Q4_0", "int8"), ("BF16", "bfloat16"), ("F16", "float32")])
def test_the_peak_is_that_of_the_activations(scheme: str, arithmetic: str):
    program = make_linear("linear", scheme, "o", (64, 64), max_rows=1, num_threads=1, cache_bytes=1)
    assert program.arithmetic == arithmetic
