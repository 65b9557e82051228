"""Named values of a model file, each read with its type and remembered as read: nothing is left over in silence.

A reader takes every field it knows, by `integer`, `number` and so on, and calls `check_all_read` at the end. A field
that is still there was written by somebody for a purpose we do not know, so it is refused by name. Serves config.json
and GGUF metadata alike; knows neither. Null means absent, except where a method says otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from pelton.errors import CheckpointError, nearest

_MAX_INTEGER = 1 << 53


class Fields:
    """Values by name. `source` says where they stand, for messages: "model/config.json"."""

    def __init__(self, source: str, values: Mapping[str, Any]) -> None:
        self.source = source
        self._values = values
        self._read: set[str] = set()

    def error(self, message: str) -> CheckpointError:
        """A CheckpointError that begins with the source."""
        return CheckpointError(f"{self.source}: {message}")

    def has(self, name: str) -> bool:
        """Whether the field is there at all, be it null."""
        return name in self._values

    def names(self) -> list[str]:
        """All fields, read or not."""
        return list(self._values)

    def take(self, name: str) -> Any:
        """The raw value, or None; counts as read."""
        self._read.add(name)
        return self._values.get(name)

    def integer(self, name: str, default: int | None = None, *, minimum: int = 1) -> int:
        """A whole number of at least `minimum`. Without a default the field is required."""
        value = self.take(name)
        if value is None:
            value = self._required(name, default)
        return self._checked_integer(name, value, minimum)

    def nullable_integer(self, name: str, default: int | None = None, *, minimum: int = 1) -> int | None:
        """As `integer`, but null is a value of its own: None. `default` stands in only for an absent field."""
        value = self.take(name) if self.has(name) else default
        self._read.add(name)
        return None if value is None else self._checked_integer(name, value, minimum)

    def number(self, name: str, default: float | None = None) -> float:
        """A finite number. Without a default the field is required."""
        value = self.take(name)
        if value is None:
            value = self._required(name, default)
        return self._checked_number(name, value)

    def positive(self, name: str, default: float | None = None) -> float:
        """A finite number above zero. Without a default the field is required."""
        value = self.number(name, default)
        if value <= 0.0:
            raise self.error(f"{name} is {value}; expected a number above 0.")
        return value

    def nullable_number(self, name: str, default: float | None = None) -> float | None:
        """A finite number, or None where the field is null; `default` stands in only for an absent field."""
        value = self.take(name) if self.has(name) else default
        self._read.add(name)
        return None if value is None else self._checked_number(name, value)

    def flag(self, name: str, default: bool) -> bool:
        """True or false."""
        value = self.take(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.error(f"{name} is {value!r}; expected true or false.")
        return value

    def text(self, name: str, default: str | None = None) -> str:
        """A string. Without a default the field is required."""
        value = self.take(name)
        if value is None:
            value = self._required(name, default)
        if not isinstance(value, str):
            raise self.error(f"{name} is {value!r}; expected text.")
        return value

    def numbers(self, name: str) -> tuple[float, ...] | None:
        """A list of finite numbers, or None."""
        value = self.take(name)
        if value is None:
            return None
        if not isinstance(value, list | tuple):
            raise self.error(f"{name} is {value!r}; expected a list of numbers.")
        return tuple(self._checked_number(f"{name}[{i}]", item) for i, item in enumerate(value))

    def mapping(self, name: str) -> Fields | None:
        """The fields of a nested object, or None."""
        value = self.take(name)
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise self.error(f"{name} is {value!r}; expected an object.")
        return Fields(f"{self.source}: {name}", value)

    def choice(self, name: str, choices: Mapping[str, Any], default: str) -> Any:
        """What `choices` says for the field's text."""
        value = self.text(name, default)
        if value not in choices:
            raise self.error(f"{name} {value!r} is not supported. {nearest(value, choices)}")
        return choices[value]

    def require(self, name: str, *allowed: object) -> None:
        """Refuse the field unless it is absent, null, or one of `allowed`: others need mathematics that is not here."""
        value = self.take(name)
        if value is not None and not any(type(value) is type(item) and value == item for item in allowed):
            expected = " or ".join(repr(item) for item in allowed) or "nothing"
            raise self.error(f"{name} is {short(value)}, which is not supported; expected {expected}.")

    def check_all_read(self, ignored: Iterable[str] = ()) -> None:
        """Raise CheckpointError for the first field that was not read, is not null and not in `ignored`."""
        known = self._read | set(ignored)
        for name, value in self._values.items():
            if value is not None and name not in known:
                raise self.error(
                    f"the field {name!r} ({short(value)}) is not known, and it may change what the model computes. "
                    f"{nearest(name, known)} Remove it if it has no effect."
                )

    def _required(self, name: str, default: Any) -> Any:
        if default is None:
            raise self.error(f"{name} is missing, and there is no safe value to assume.")
        return default

    def _checked_integer(self, name: str, value: Any, minimum: int) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not minimum <= value <= _MAX_INTEGER:
            raise self.error(f"{name} is {short(value)}; expected a whole number of at least {minimum}.")
        return value

    def _checked_number(self, name: str, value: Any) -> float:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not -_MAX_INTEGER <= value <= _MAX_INTEGER or not math.isfinite(value):
            raise self.error(f"{name} is {short(value)}; expected a finite number.")
        return float(value)


def short(value: object) -> str:
    """`repr(value)`, cut where it is long."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
