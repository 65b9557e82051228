import click
import pytest

from pelton.config.flags import ask_flags, describe, get_default_text, make_options
from pelton.config.schema import SECTIONS, SETTINGS
from pelton.errors import ConfigError

pytestmark = pytest.mark.unit


def parse(*args: str):
    command = click.Command("x", params=make_options(SECTIONS), callback=lambda **values: values)
    return ask_flags(command.main(list(args), standalone_mode=False))


def test_every_setting_that_can_be_asked_for_is_a_flag():
    options = {option.name for option in make_options(SECTIONS)}
    assert options == set(SETTINGS) - {"model", "num_blocks"}
    assert {o.name for o in make_options(["log"])} == {"log_level", "log_format", "access_log"}


def test_without_flags_nothing_is_asked():
    assert list(parse()) == []


def test_values_get_their_types():
    asked = parse(
        *("--port", "80", "--max-num-seqs", "4", "--max-model-len", "8K", "--shutdown-timeout-s", "1.5", "--exact"),
        *("--no-docs-page", "--served-model-name", "a", "--served-model-name", "b", "--block-size", "auto"),
    )
    assert {name: asked.get(name) for name in asked} == {
        "port": 80,
        "max_num_requests": 4,
        "max_model_len": 8192,
        "shutdown_timeout_s": 1.5,
        "exact": True,
        "docs_page": False,
        "served_model_name": ("a", "b"),
    }
    assert asked.where("port") == "--port"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--port", "x"), "--port: 'x' is not a whole number."),
        (("--port", "1.0"), "--port: '1.0' is not a whole number."),
        (("--port", "auto"), "--port: 'auto' is not a whole number."),
        (("--shutdown-timeout-s", "nan"), "--shutdown-timeout-s: nan is too small"),
        (("--shutdown-timeout-s", "long"), "--shutdown-timeout-s: 'long' is not a number."),
        (("--max-model-len", "8q"), "--max-model-len: '8q' is not a whole number. Suffixes"),
        (("--block-size", "7"), "--block-size: 7 is not allowed."),
        (("--log-level", "loud"), "--log-level: 'loud' is not allowed. Allowed: debug"),
    ],
)
def test_wrong_values_name_the_flag(args: tuple[str, ...], message: str):
    with pytest.raises(ConfigError) as caught:
        parse(*args)
    assert message in str(caught.value)


def test_help_shows_unit_and_default():
    assert describe(SETTINGS["max_model_len"]).endswith("[tokens] (default: auto)")
    assert get_default_text(SETTINGS["docs_page"]) == "on"
    assert get_default_text(SETTINGS["exact"]) == "off"
    assert get_default_text(SETTINGS["api_key"]) == "none"
