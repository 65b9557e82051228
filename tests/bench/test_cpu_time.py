from pathlib import Path

import pytest

from pelton.bench.cpu_time import CpuTime, read_cpu_time

pytestmark = pytest.mark.unit


def test_the_first_line_counts_all_cpus(tmp_path: Path):
    stat = tmp_path / "stat"
    stat.write_text("cpu  10 20 30 400 5 6 7 8 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n")
    found = read_cpu_time(stat)
    assert (found.total, found.busy, found.steal) == (486, 73, 8)
    assert found.own > 0


def test_without_such_a_file_nothing_was_taken(tmp_path: Path):
    before, after = read_cpu_time(tmp_path / "none"), read_cpu_time(tmp_path / "none")
    assert after.steal_share(before) == 0
    assert after.other_share(before) == 0


def test_shares():
    before = CpuTime(total=1000, busy=100, steal=10, own=50.0)
    after = CpuTime(total=1200, busy=250, steal=30, own=150.0)
    assert after.steal_share(before) == pytest.approx(0.1)
    assert after.other_share(before) == pytest.approx(0.25)


def test_ticks_are_coarse_but_others_never_take_less_than_nothing():
    assert CpuTime(total=10, busy=1, own=2.5).other_share(CpuTime()) == 0


def test_this_machine():
    before = read_cpu_time()
    after = read_cpu_time()
    assert after.total >= before.total
    assert 0 <= after.steal_share(before) <= 1
