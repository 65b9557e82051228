from pathlib import Path

import pytest

from pelton.config.env import VARIABLES, find_misspelled, get_environment, make_child_environment
from pelton.errors import ConfigError

pytestmark = pytest.mark.unit


def test_an_empty_environment_asks_for_nothing():
    found = get_environment({"PELTON_ISA": "", "XDG_CACHE_HOME": "/home/a/cache"})
    assert found.cache_dir == Path("/home/a/cache/pelton")
    assert (found.api_key, found.log_level, found.isa, found.is_offline, found.config_file) == (None,) * 3 + (
        False,
        None,
    )


def test_every_variable_fills_its_field():
    given = {
        "PELTON_CACHE": "~/models",
        "PELTON_API_KEY": "secret",
        "PELTON_LOG_LEVEL": "DEBUG",
        "PELTON_ISA": "avx2",
        "PELTON_OFFLINE": "yes",
        "PELTON_CONFIG": "serve.yaml",
    }
    assert sorted(given) == sorted(v.name for v in VARIABLES)
    found = get_environment(given)
    assert found.cache_dir == Path.home() / "models"
    assert found.api_key == "secret"
    assert found.log_level == "debug"
    assert found.isa == "avx2"
    assert found.is_offline
    assert found.config_file == Path("serve.yaml")


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("PELTON_ISA", "avx1024", "generic, avx2, avx512"),
        ("PELTON_OFFLINE", "maybe", "1, true"),
        ("PELTON_LOG_LEVEL", "loud", "debug"),
    ],
)
def test_a_wrong_value_names_the_allowed_ones(name: str, value: str, allowed: str):
    with pytest.raises(ConfigError, match=f"{name}: '{value}' .*{allowed}"):
        get_environment({name: value})


def test_only_near_misses_are_reported():
    assert find_misspelled({"PELTON_CACH": "x", "PELTON_SERVICE_PORT": "tcp://10.0.0.1", "HOME": "/"}) == [
        "PELTON_CACH is not read by Pelton. Did you mean 'PELTON_CACHE'?"
    ]


def test_there_are_at_most_twelve():
    assert len(VARIABLES) <= 12


def test_a_child_has_this_environment_with_changes(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PELTON_CACHE", "here")
    monkeypatch.setenv("PELTON_ISA", "avx2")
    child = make_child_environment(PELTON_CACHE="there")
    assert (child["PELTON_CACHE"], child["PELTON_ISA"]) == ("there", "avx2")
    assert get_environment().cache_dir == Path("here")
