"""The resolved configuration for people and programs: every value, where it comes from, and why.

Invariant: a secret is shown as set or not set, never as itself, in every form made here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from pelton.config.decision import Decision
from pelton.config.schema import SETTINGS, EngineConfig
from pelton.config.user_config import UserConfig

Source = Literal["asked", "decided", "default"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One setting of a resolved configuration."""

    section: str
    field: str
    value: Any
    source: Source
    why: str


def make_rows(config: EngineConfig, asked: UserConfig, decisions: Sequence[Decision]) -> list[Row]:
    """One row for each setting, in the order of the schema."""
    reasons = {d.field: d.why for d in decisions}
    rows = []
    for setting in SETTINGS.values():
        value = getattr(getattr(config, setting.section), setting.name)
        source: Source = "default"
        why = ""
        if setting.name in asked:
            source, why = "asked", asked.where(setting.name)
        elif setting.name in reasons:
            source, why = "decided", reasons[setting.name]
        if setting.knob.is_secret and value is not None:
            value = "(set)"
        rows.append(Row(section=setting.section, field=setting.name, value=value, source=source, why=why))
    return rows


def make_json(config: EngineConfig, asked: UserConfig, decisions: Sequence[Decision]) -> dict[str, Any]:
    """What GET /config and `pelton config --json` give: sections, each field with value, source and reason."""
    sections: dict[str, Any] = {}
    for row in make_rows(config, asked, decisions):
        entry = asdict(row)
        sections.setdefault(entry.pop("section"), {})[entry.pop("field")] = entry
    return sections
