import json

import pytest
from tests.bench.calibrations import make_calibration

from pelton.backends.cpu.isa import get_isa
from pelton.bench.calibrate import Calibration, calibrate, calibrate_quickly, get_read_bytes, get_state

SMALL = 64 << 20


def check_rates(found: Calibration):
    rates = found.all_threads
    assert min(rates.int8_ops_per_s, rates.bfloat16_ops_per_s, rates.float32_ops_per_s) > 1e8
    assert rates.read_bytes_per_s > 1e7
    assert found.isa == get_isa()
    assert 0 <= found.huge_page_share <= 1
    assert 0 <= found.steal_share <= 1
    assert found.read_region_bytes == SMALL
    assert all((found.int8_instruction, found.bfloat16_instruction, found.float32_instruction))
    assert json.loads(json.dumps(found.to_json()))["state"] == found.state


@pytest.mark.cpu
def test_everything_is_measured_on_one_and_on_all_threads():
    found = calibrate(0.05, num_threads=2, read_bytes=SMALL)
    check_rates(found)
    assert found.one_thread is not None
    assert (found.one_thread.num_threads, found.all_threads.num_threads) == (1, 2)
    assert (found.one_thread.small_page_read_bytes_per_s or 0) > 0
    assert (found.all_threads.small_page_read_bytes_per_s or 0) > 0
    assert 1e8 < (found.clock_hz or 0) < 1e11
    assert found.barrier_s > 0
    assert found.taken_s > 0


@pytest.mark.cpu
def test_a_quick_one_measures_all_threads_only():
    found = calibrate_quickly(0.05, num_threads=1, read_bytes=SMALL)
    check_rates(found)
    assert (found.one_thread, found.clock_hz, found.barrier_s, found.state) == (None, None, 0.0, "alone")


@pytest.mark.unit
def test_the_peak_of_a_kind_of_number():
    found = make_calibration()
    peaks = [found.peak_of(kind) for kind in ("int8", "bfloat16", "float32")]
    assert peaks == [1000e9, 500e9, 250e9]


@pytest.mark.unit
@pytest.mark.parametrize(
    ("barrier_s", "num_threads", "state"),
    [(0.0, 1, "alone"), (33e-9, 2, "near"), (50e-9, 2, "near"), (305e-9, 2, "far"), (70e-6, 2, "disturbed")],
)
def test_the_barrier_tells_the_state(barrier_s: float, num_threads: int, state: str):
    assert get_state(barrier_s, num_threads) == state


@pytest.mark.unit
def test_less_is_read_where_memory_is_short():
    assert get_read_bytes(1 << 30, 1 << 40) == 1 << 30
    assert get_read_bytes(1 << 30, 1 << 30) == 1 << 28
    assert get_read_bytes(1 << 30, 0) == SMALL
