"""A knob: one setting, written once, that is the flag, the key of the file, the check and the documentation row.

Invariant: a value that `check_value` returns has the type, the range and the spelling that the field's owner relies on;
nothing behind the border checks it again. Pure.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, get_type_hints

from pelton.errors import ConfigError

_SUFFIXES: Final = (
    {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "K": 2**10, "M": 2**20, "G": 2**30}
    | {"KB": 10**3, "MB": 10**6, "GB": 10**9}
    | {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
)
_SIZE: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Knob:
    """What is known about a setting besides its name and type."""

    help: str
    unit: str = ""
    choices: tuple[Any, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    alias: tuple[str, ...] = ()
    auto: Any = None  # the value that means "not decided yet"; `resolve` replaces it, and no flag can ask for it
    is_positional: bool = False  # MODEL on the command line, a key in the file
    is_derived: bool = False  # follows from other settings; cannot be asked for
    is_secret: bool = False  # never printed
    is_hidden: bool = False  # for tests of the engine itself: in no help and in no documentation


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A field of the schema with its section, type, default and knob."""

    section: str
    name: str
    type: Any
    default: Any
    knob: Knob

    @property
    def flag(self) -> str:
        """How it is written on the command line, and in messages.

        >>> Setting(section="server", name="max_body_bytes", type=int, default=1, knob=Knob(help="")).flag
        '--max-body-bytes'
        """
        return self.name.upper() if self.knob.is_positional else f"--{self.name.replace('_', '-')}"

    @property
    def is_auto(self) -> bool:
        """Whether the default is a decision of `resolve`."""
        return self.knob.auto is not None


def knob(default: Any, help: str, *, auto: bool = False, **more: Any) -> Any:
    """A dataclass field with its documentation. With `auto`, `default` only marks that `resolve` will choose."""
    about = Knob(help=help, auto=default if auto else None, **more)
    return dataclasses.field(default=default, metadata={"knob": about})


def get_settings(section: str, schema: type) -> tuple[Setting, ...]:
    """The settings of a section's dataclass, in the order they are written."""
    hints = get_type_hints(schema)
    return tuple(
        Setting(section=section, name=f.name, type=hints[f.name], default=f.default, knob=f.metadata["knob"])
        for f in dataclasses.fields(schema)
    )


def parse_size(text: str) -> int | None:
    """A whole number with an optional suffix, None if it is not one. k is 1000 and K is 1024, as in the field.

    >>> parse_size("32k"), parse_size("1.5GiB"), parse_size("32x")
    (32000, 1610612736, None)
    """
    match = _SIZE.fullmatch(text)
    if match is None or match[2] not in _SUFFIXES:
        return None
    value = float(match[1]) * _SUFFIXES[match[2]]
    return int(value) if value.is_integer() else None


def check_value(setting: Setting, value: Any, *, where: str) -> Any:
    """`value` as the setting's type, or ConfigError. Text stands for a number only where sizes have suffixes."""
    result = _convert(setting, value, where)
    about = setting.knob
    if about.is_derived:
        raise ConfigError(f"{where}: {setting.name} follows from other settings and cannot be set.")
    if about.choices and result not in about.choices:
        raise ConfigError(f"{where}: {value!r} is not allowed. Allowed: {', '.join(map(str, about.choices))}.")
    if about.minimum is not None and not result >= about.minimum:  # written so that NaN fails
        raise ConfigError(f"{where}: {value!r} is too small; the least is {_number(about.minimum)}{_unit(about)}.")
    if about.maximum is not None and not result <= about.maximum:
        raise ConfigError(f"{where}: {value!r} is too large; the most is {_number(about.maximum)}{_unit(about)}.")
    return result


def _number(bound: float) -> str:
    """Without an exponent: 16777216 and 0.5."""
    return str(int(bound)) if float(bound).is_integer() else str(bound)


def _convert(setting: Setting, value: Any, where: str) -> Any:
    kind = setting.type
    if kind is int and isinstance(value, str) and setting.knob.unit in ("tokens", "bytes"):
        value = parse_size(value) if parse_size(value) is not None else value
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if kind == tuple[str, ...]:
        value = (value,) if isinstance(value, str) else value
        if isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value):
            return tuple(value)
    expected = {int: int, float: float, bool: bool, str: str, str | None: str}.get(kind)
    if expected is None or not isinstance(value, expected) or (expected is not bool and isinstance(value, bool)):
        raise ConfigError(f"{where}: {value!r} is not {_TYPE_WORDS[kind]}.{_size_hint(setting)}")
    return value


_TYPE_WORDS: Final[Mapping[Any, str]] = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "a text",
    str | None: "a text",
    tuple[str, ...]: "a list of texts",
}


def _size_hint(setting: Setting) -> str:
    is_size = setting.type is int and setting.knob.unit in ("tokens", "bytes")
    return " Suffixes: k, m, g (1000) and K, M, G or KiB, MiB, GiB (1024)." if is_size else ""


def _unit(about: Knob) -> str:
    return f" {about.unit}" if about.unit else ""
