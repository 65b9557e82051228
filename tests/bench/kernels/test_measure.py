from dataclasses import replace

import pytest
from tests.bench.calibrations import make_calibration

from pelton.bench.kernels.measure import CompiledKernel, Timing, compute_cost, compute_op_time, make_row
from pelton.bench.kernels.model_shape import ModelShape
from pelton.bench.kernels.program import KernelProgram, KernelStep
from pelton.bench.kernels.row_op import COPIES, make_quantize, make_rms_norm

pytestmark = pytest.mark.cpu

SHAPE = ModelShape(hidden_size=64, intermediate_size=96, num_heads=4, num_kv_heads=2, head_dim=16, vocab_size=300)
STEP = KernelStep(facts={"rows": 2}, requests=((0, 2),))


def make_program() -> KernelProgram:
    return make_rms_norm(SHAPE, max_rows=4, num_threads=1)


def test_the_time_of_one_copy_is_taken_from_the_label():
    program = replace(make_program(), label="x", copies=2)
    assert compute_op_time([("y", 8.0), ("x", 1.0), ("barrier", 9.0), ("x", 3.0), ("sampling", 7.0)], program) == 2.0


def test_others_with_the_same_label_do_not_count():
    program = replace(make_program(), label="x", copies=1, num_others_before=1, num_others_behind=1)
    assert compute_op_time([("x", 50.0), ("x", 1.0), ("x", 70.0)], program) == 1.0


def test_a_label_that_the_backend_does_not_use_is_noticed():
    with pytest.raises(AssertionError, match="has no 'rms_norm' among"):
        compute_op_time([("y", 1.0)], make_program())


def test_a_program_runs_and_its_op_takes_time():
    kernel = CompiledKernel(make_program())
    timing = kernel.measure(STEP, 0.001)
    assert timing.num_runs >= 1
    assert 0 < timing.best_s <= timing.median_s < 1


def test_quantization_is_found_between_the_others():
    program = make_quantize(SHAPE, max_rows=4, num_threads=1)
    kernel = CompiledKernel(program)
    assert kernel.measure(STEP, 0.001).best_s > 0
    assert program.copies == COPIES
    assert compute_cost(program, STEP).num_bytes == 2 * 64 * 5


def test_a_row_is_held_against_the_limit_that_is_nearer():
    program = make_program()
    cost = compute_cost(program, STEP)
    assert cost.num_bytes == 4 * (2 * 2 * 64 + 64)
    timing = Timing(best_s=1e-6, median_s=2e-6, num_runs=3)
    row = make_row(program, STEP, timing, cost, make_calibration())
    assert (row["op"], row["width"], row["rows"], row["threads"], row["runs"]) == ("rms_norm", 64, 2, 1, 3)
    assert (row["time_us"], row["median_us"]) == (1.0, 2.0)
    assert row["gb_per_s"] == pytest.approx(cost.num_bytes / 1e3)
    assert row["limited_by"] == "cache"
    assert row["percent_of_limit"] == pytest.approx(100 * cost.num_bytes / 50e9 / 1e-6)
    streamed = make_row(replace(program, streams=True), STEP, timing, cost, make_calibration())
    assert streamed["limited_by"] == "memory"
    slow = make_calibration(all_threads=replace(make_calibration().all_threads, float32_ops_per_s=1e6))
    assert make_row(program, STEP, timing, cost, slow)["limited_by"] == "float32"
