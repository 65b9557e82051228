import pytest

from pelton.bench.host_step import measure_host_steps, time_steps

pytestmark = pytest.mark.cpu  # it needs the engine's own loop, which brings the execution plane


def test_a_row_for_each_number_of_requests():
    rows = list(measure_host_steps(running=(1, 3), waiting=(0, 5), num_steps=4))
    assert [(row["running"], row["waiting"]) for row in rows] == [(1, 0), (1, 5), (3, 0), (3, 5)]
    assert all(0 < row["best_us"] <= row["us"] for row in rows)


def test_as_many_steps_as_asked():
    assert len(time_steps(2, 1, 6)) == 6
