import math
from typing import Any

import pytest

from pelton.config.knob import check_value, parse_size
from pelton.config.schema import SETTINGS
from pelton.errors import ConfigError

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("17", 17),
        ("32k", 32_000),
        ("32K", 32_768),
        ("1.5k", 1500),
        ("2 GiB", 2 * 2**30),
        ("2GB", 2 * 10**9),
        ("3m", 3_000_000),
        ("", None),
        ("k", None),
        ("-1", None),
        ("1e3", None),
        ("1.5", None),
        ("0.0001k", None),
        ("8kk", None),
    ],
)
def test_parse_size(text: str, value: int | None):
    assert parse_size(text) == value


@pytest.mark.parametrize(
    ("name", "given", "value"),
    [
        ("port", 80, 80),
        ("max_model_len", "8k", 8000),
        ("shutdown_timeout_s", 3, 3.0),
        ("served_model_name", "a", ("a",)),
        ("served_model_name", ["a", "b"], ("a", "b")),
        ("exact", True, True),
        ("chat_template", "x", "x"),
    ],
)
def test_right_values_get_the_type_of_the_field(name: str, given: Any, value: Any):
    result = check_value(SETTINGS[name], given, where="here")
    assert result == value
    assert type(result) is type(value)


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("port", "80", "'80' is not a whole number"),
        ("port", True, "True is not a whole number"),
        ("port", 80.0, "80.0 is not a whole number"),
        ("port", -1, "-1 is too small; the least is 0"),
        ("port", 65536, "65536 is too large; the most is 65535"),
        ("shutdown_timeout_s", math.nan, "too small"),
        ("shutdown_timeout_s", "soon", "'soon' is not a number"),
        ("exact", 1, "1 is not true or false"),
        ("host", 5, "5 is not a text"),
        ("chat_template", [], "is not a text"),
        ("served_model_name", [1], "is not a list of texts"),
        ("scheduling_policy", "lifo", "'lifo' is not allowed. Allowed: fcfs, priority"),
        ("block_size", 24, "24 is not allowed. Allowed: 8, 16"),
        ("max_model_len", "8x", "'8x' is not a whole number. Suffixes: k"),
        ("max_model_len", 0, "the least is 1 tokens"),
        ("max_model_len", 99_999_999, "the most is 16777216 tokens"),
        ("num_blocks", 5, "num_blocks follows from other settings"),
    ],
)
def test_wrong_values_say_where_and_what(name: str, given: Any, message: str):
    with pytest.raises(ConfigError) as caught:
        check_value(SETTINGS[name], given, where="serve.yaml: x")
    assert str(caught.value).startswith("serve.yaml: x: ")
    assert message in str(caught.value)
