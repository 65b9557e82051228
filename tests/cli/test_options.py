from pathlib import Path

import click
import pytest

from pelton.cli.options import config_options, gather, get_model
from pelton.config.user_config import UserConfig, ask
from pelton.errors import ConfigError

pytestmark = pytest.mark.unit


@click.command()
@config_options("model", "server", "log")
@click.option("--own", default="x")
def example(asked: UserConfig, own: str) -> tuple[UserConfig, str]:
    """An example."""
    return asked, own


def call(*args: str) -> tuple[UserConfig, str]:
    result: tuple[UserConfig, str] = example.main(list(args), standalone_mode=False)
    return result


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PELTON_CONFIG", "PELTON_API_KEY", "PELTON_LOG_LEVEL"):
        monkeypatch.delenv(name, raising=False)


def test_flags_and_model_come_as_one_value_beside_own_options():
    asked, own = call("demo", "--port", "80", "--own", "y")
    assert {name: asked.get(name) for name in asked} == {"model": "demo", "port": 80}
    assert own == "y"


def test_only_the_named_sections_are_flags():
    with pytest.raises(click.NoSuchOption):
        call("--num-threads", "1")


def test_a_command_can_leave_settings_out():
    @click.command()
    @config_options("log", without=("log_format",))
    def quiet(asked: UserConfig) -> UserConfig:
        return asked

    assert quiet.main(["m", "--log-level", "error"], standalone_mode=False).get("log_level") == "error"
    with pytest.raises(click.NoSuchOption):
        quiet.main(["m", "--log-format", "json"], standalone_mode=False)


def test_command_line_over_environment_over_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = tmp_path / "c.yaml"
    file.write_text("{model: a, port: 1, host: file, log_level: debug, api_key: file}")
    monkeypatch.setenv("PELTON_LOG_LEVEL", "error")
    monkeypatch.setenv("PELTON_API_KEY", "environment")
    asked, _ = call("b", "--port", "2", "--config", str(file), "--api-key", "flag")
    assert {name: asked.get(name) for name in asked} == {
        "model": "b",
        "port": 2,
        "host": "file",
        "log_level": "error",
        "api_key": "flag",
    }
    monkeypatch.setenv("PELTON_CONFIG", str(file))
    assert gather({}, None).get("host") == "file"


def test_a_command_without_model():
    @click.command()
    @config_options("log", model=False)
    def plain(asked: UserConfig) -> UserConfig:
        return asked

    assert list(plain.main(["--log-level", "info"], standalone_mode=False)) == ["log_level"]
    with pytest.raises(click.UsageError):
        plain.main(["demo"], standalone_mode=False)


def test_get_model():
    assert get_model(ask(model="demo")) == "demo"
    with pytest.raises(ConfigError, match=r"MODEL is missing\. Give one: a directory"):
        get_model(ask())
