import pytest

from pelton.config.env import get_environment
from pelton.config.user_config import ask, ask_environment, find_setting
from pelton.errors import ConfigError

pytestmark = pytest.mark.unit


def test_only_what_was_asked_is_in_it():
    asked = ask(model="demo", port=None, max_num_seqs=4)
    assert sorted(asked) == ["max_num_requests", "model"]
    assert asked.get("max_num_requests") == 4
    assert asked.where("max_num_requests") == "max_num_seqs"
    assert asked.get("port") == 8000
    assert asked.where("port") == "--port"


def test_it_is_sealed():
    with pytest.raises(TypeError):
        ask(port=1).asked["port"] = 2


def test_the_stronger_wins_and_the_weaker_fills():
    both = ask(port=1).over(ask(port=2, host="h"))
    assert (both.get("port"), both.get("host")) == (1, "h")


def test_an_unknown_name_gets_the_nearest():
    with pytest.raises(ConfigError, match=r"max_model_length: .*Did you mean 'max_model_len'\?"):
        ask(max_model_length=1)
    assert find_setting("max-num-seqs", where="x").name == "max_num_requests"


def test_a_setting_and_its_alias_together_are_refused():
    with pytest.raises(ConfigError, match="max_num_requests is given twice"):
        ask(max_num_seqs=1, max_num_requests=2)


def test_the_environment_is_named_as_the_source():
    asked = ask_environment(get_environment({"PELTON_API_KEY": "k", "PELTON_LOG_LEVEL": "error"}))
    assert asked.get("api_key") == "k"
    assert asked.where("log_level") == "PELTON_LOG_LEVEL"
    assert list(ask_environment(get_environment({}))) == []
