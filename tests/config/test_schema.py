import dataclasses

import pytest

from pelton.config.knob import Knob, check_value
from pelton.config.schema import ALIASES, SECTIONS, SETTINGS, EngineConfig

pytestmark = pytest.mark.unit


def test_names_are_unique_over_all_sections():
    names = [f.name for schema in SECTIONS.values() for f in dataclasses.fields(schema)]
    assert len(names) == len(set(names)) == len(SETTINGS)
    assert not set(ALIASES) & set(SETTINGS)


def test_the_engine_config_has_one_field_for_each_section():
    assert [f.name for f in dataclasses.fields(EngineConfig)] == list(SECTIONS)


@pytest.mark.parametrize("setting", SETTINGS.values(), ids=SETTINGS.keys())
def test_every_setting_is_documented_and_positive(setting):
    assert isinstance(setting.knob, Knob)
    assert setting.knob.help.endswith(".")
    assert not setting.name.startswith(("no_", "disable_"))


@pytest.mark.parametrize("setting", SETTINGS.values(), ids=SETTINGS.keys())
def test_a_default_is_a_value_one_could_ask_for_or_auto(setting):
    if setting.is_auto:
        assert setting.default == setting.knob.auto
    elif setting.default is not None:
        assert check_value(setting, setting.default, where="default") == setting.default
