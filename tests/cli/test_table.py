import pytest

from pelton.cli.table import format_table, format_value

pytestmark = pytest.mark.unit


def test_columns_are_as_wide_as_their_content():
    assert format_table([("a", "bb", "c"), ("aaa", "b", "")], indent=1) == " a    bb  c\n aaa  b"


@pytest.mark.parametrize(
    ("value", "text"), [(True, "on"), (False, "off"), (0, "0"), ("", "-"), (None, "-"), ((), "-"), (["a", "b"], "a, b")]
)
def test_values_read_as_on_the_command_line(value: object, text: str):
    assert format_value(value) == text
