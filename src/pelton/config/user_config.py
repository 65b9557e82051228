"""What a person asked for, and where: nothing that was not asked is in here.

Invariant: every value has been checked against the schema, and it is never changed afterwards. `resolve` may fill what
is missing here and may refuse what is present, never replace it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from pelton.config.env import Environment
from pelton.config.knob import Setting, check_value
from pelton.config.schema import ALIASES, SETTINGS
from pelton.errors import ConfigError, nearest


@dataclass(frozen=True, slots=True)
class Asked:
    """A value and the place that asked for it, as it is named in messages: '--port', 'serve.yaml: port'."""

    value: Any
    where: str


@dataclass(frozen=True, slots=True)
class UserConfig:
    """Checked settings by name, each with its source."""

    asked: Mapping[str, Asked]

    def __contains__(self, name: str) -> bool:
        return name in self.asked

    def __iter__(self) -> Iterator[str]:
        return iter(self.asked)

    def get(self, name: str) -> Any:
        """The value asked for, or the schema's default."""
        return self.asked[name].value if name in self.asked else SETTINGS[name].default

    def where(self, name: str) -> str:
        """Who asked for `name`; the flag if nobody did."""
        return self.asked[name].where if name in self.asked else SETTINGS[name].flag

    def over(self, weaker: UserConfig) -> UserConfig:
        """Both together; where both ask, this one wins."""
        return UserConfig(MappingProxyType({**weaker.asked, **self.asked}))


def find_setting(name: str, *, where: str) -> Setting:
    """The setting called `name`, with - or _, or by an alias; ConfigError with the nearest name if there is none."""
    plain = name.replace("-", "_")
    plain = ALIASES.get(plain, plain)
    if plain not in SETTINGS:
        raise ConfigError(f"{where}: {name!r} is not a known setting. {nearest(plain, [*SETTINGS, *ALIASES])}")
    return SETTINGS[plain]


def ask(**values: Any) -> UserConfig:
    """What a program asks for, by field name or alias. None counts as not asked.

    >>> ask(max_num_seqs=4, port=None).get("max_num_requests")
    4
    """
    asked: dict[str, Asked] = {}
    for name, value in values.items():
        if value is None:
            continue
        setting = find_setting(name, where=name)
        if setting.name in asked:
            raise ConfigError(f"{name}: {setting.name} is given twice, as {asked[setting.name].where} and as {name}.")
        asked[setting.name] = Asked(check_value(setting, value, where=name), name)
    return UserConfig(MappingProxyType(asked))


def ask_environment(environment: Environment) -> UserConfig:
    """The settings that the environment asks for."""
    found = {"api_key": environment.api_key, "log_level": environment.log_level}
    return UserConfig(MappingProxyType({k: Asked(v, f"PELTON_{k.upper()}") for k, v in found.items() if v is not None}))
