import pytest

from pelton.bench.markdown import format_cell, format_markdown

pytestmark = pytest.mark.unit


def test_one_row_keeps_all_its_columns():
    assert format_markdown([{"a": 1, "b": "x"}]) == "| a | b |\n|---|---|\n| 1 | x |"


def test_what_all_rows_share_stands_above():
    rows = [{"model": "m", "batch": 1, "speed": 10.0}, {"model": "m", "batch": 8, "speed": 20.0}]
    assert format_markdown(rows).splitlines()[:3] == ["model: m", "", "| batch | speed |"]


def test_rows_may_have_different_columns():
    assert format_markdown([{"a": 1}, {"b": 2}]).splitlines()[2:] == ["| 1 |  |", "|  | 2 |"]


def test_equal_rows_are_a_table_all_the_same():
    assert format_markdown([{"a": 1}, {"a": 1}]).splitlines() == ["| a |", "|---|", "| 1 |", "| 1 |"]


@pytest.mark.parametrize(
    ("value", "cell"), [(False, "no"), (0.0, "0"), (1e-9, "1e-09"), (999.4, "999"), (1234.5, "1234"), (7, "7")]
)
def test_cells(value: object, cell: str):
    assert format_cell(value) == cell
