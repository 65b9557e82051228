"""Command-line options made from the schema. Flags are written nowhere else.

Invariant: an option's default is None, so what was asked stays apart from what is the default. Only the command line
imports this module; click must not be needed to run an engine.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

import click

from pelton.config.knob import Setting, check_value
from pelton.config.schema import SETTINGS
from pelton.config.user_config import Asked, UserConfig
from pelton.errors import ConfigError

_METAVARS: Final = {int: "N", float: "X", tuple[str, ...]: "TEXT"}


def make_options(sections: Iterable[str]) -> list[click.Option]:
    """One option for each setting of the named sections that can be asked for."""
    wanted = set(sections)
    settings = [s for s in SETTINGS.values() if s.section in wanted]
    return [make_option(s) for s in settings if not (s.knob.is_positional or s.knob.is_derived)]


def make_option(setting: Setting) -> click.Option:
    """The option of one setting; booleans get a --no- form, lists can be repeated."""
    names = [setting.flag, *(f"--{alias.replace('_', '-')}" for alias in setting.knob.alias)]
    more: dict[str, Any] = {"default": None, "help": describe(setting)}
    if setting.type is bool:
        names = [f"{setting.flag}/--no-{setting.flag[2:]}"]
    else:
        more["type"] = str
        more["metavar"] = "|".join(map(str, setting.knob.choices)) or _METAVARS.get(setting.type, "TEXT")
        more["multiple"] = setting.type == tuple[str, ...]
    more["hidden"] = setting.knob.is_hidden
    return click.Option([setting.name, *names], **more)


def describe(setting: Setting) -> str:
    """Help text with unit and default, as it stands in --help.

    >>> describe(SETTINGS["port"])
    'Port to listen on; 0 takes a free one. (default: 8000)'
    """
    unit = f" [{setting.knob.unit}]" if setting.knob.unit else ""
    return f"{setting.knob.help}{unit} (default: {get_default_text(setting)})"


def get_default_text(setting: Setting) -> str:
    """The default as documentation shows it."""
    if setting.is_auto:
        return "auto"
    if isinstance(setting.default, bool):
        return "on" if setting.default else "off"
    return "none" if setting.default in (None, "", ()) else str(setting.default)


def ask_flags(values: Mapping[str, Any]) -> UserConfig:
    """What the command line asks for. `values` are click's: None or an empty tuple where a flag was not given."""
    given = {name: value for name, value in values.items() if value is not None and value != ()}
    asked = {}
    for name, value in given.items():
        setting = SETTINGS[name]
        if setting.is_auto and value == "auto":
            continue
        parsed = _parse_number(setting, value) if isinstance(value, str) else value
        asked[name] = Asked(check_value(setting, parsed, where=setting.flag), setting.flag)
    return UserConfig(MappingProxyType(asked))


def _parse_number(setting: Setting, text: str) -> Any:
    """Text of the command line as a number where the setting is one; other text stays for `check_value`."""
    if setting.type not in (int, float):
        return text
    try:
        return setting.type(text)
    except ValueError:
        if setting.type is int and setting.knob.unit in ("tokens", "bytes"):
            return text
        word = "a whole number" if setting.type is int else "a number"
        raise ConfigError(f"{setting.flag}: {text!r} is not {word}.") from None
