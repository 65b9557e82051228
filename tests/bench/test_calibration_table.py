from dataclasses import replace

import pytest
from tests.bench.calibrations import RATES, make_calibration

from pelton.bench.calibration_table import make_rows

pytestmark = pytest.mark.unit


def test_a_quick_calibration_has_what_it_measured():
    rows = {row["what"]: (row["value"], row["unit"]) for row in make_rows(make_calibration())}
    assert rows == {
        "int8, 2 threads": (1000.0, "GOP/s"),
        "bfloat16, 2 threads": (500.0, "GOP/s"),
        "float32, 2 threads": (250.0, "GOP/s"),
        "read, 2 threads": (50.0, "GB/s"),
        "barrier": (pytest.approx(320), "ns"),
        "stolen": (0.0, "% of CPU time"),
        "others": (1.0, "% of CPU time"),
    }


def test_a_full_one_has_one_thread_and_small_pages_too():
    rates = replace(RATES, small_page_read_bytes_per_s=20e9)
    full = make_calibration(clock_hz=3.7e9, all_threads=rates, one_thread=replace(rates, num_threads=1))
    rows = make_rows(full)
    assert rows[0]["what"] == "clock"
    assert [row["note"] for row in rows if row["what"] == "read, 1 thread"] == [
        "4 KiB pages, over 512 MiB",
        "2 MiB pages (100 % given), over 512 MiB",
    ]
