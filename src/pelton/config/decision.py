"""A choice made for the user, and the state of the choices while they are made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pelton.config.hardware import Hardware
from pelton.config.model_facts import ModelFacts
from pelton.config.schema import SETTINGS
from pelton.config.user_config import UserConfig


@dataclass(frozen=True, slots=True)
class Decision:
    """A value the engine chose for the user, and why. Printed by `pelton config`, served at /config."""

    field: str
    value: Any
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A configuration on its way: what is known, and what has been decided so far."""

    asked: UserConfig
    model: ModelFacts
    hardware: Hardware
    decided: Mapping[str, Any]

    def value(self, name: str) -> Any:
        """What `name` is at this point: asked, decided, or the schema's default."""
        return self.decided[name] if name in self.decided else self.asked.get(name)

    def is_open(self, name: str) -> bool:
        """Whether nobody asked for `name`, so that a rule may fill it."""
        return name not in self.asked

    def name(self, field: str) -> str:
        """`field` with its value and who asked for it, for messages: '--max-model-len=8192'.

        >>> from pelton.config.user_config import ask
        >>> Draft(asked=ask(port=1), model=None, hardware=None, decided={}).name("port")
        'port=1'
        """
        where = self.asked.where(field) if field in self.asked else SETTINGS[field].flag
        return f"{where}={self.value(field)}"
