import pytest

from pelton.cli.number_list import parse_counts
from pelton.errors import ConfigError

pytestmark = pytest.mark.unit


def test_counts():
    assert parse_counts("--batch", "1,8, 32") == [1, 8, 32]


@pytest.mark.parametrize("text", ["", "x", "1,", "0", "4,-1", "1.5"])
def test_what_is_no_list_of_counts(text: str):
    with pytest.raises(ConfigError, match=f"^--rows: '{text}' is not a list of positive numbers like 1,8,32"):
        parse_counts("--rows", text)
