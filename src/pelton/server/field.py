"""What each field of a request does here: one table per route drives the check, the message and the documentation.

Invariant: a field that clients of the field know either works, or is named as without effect, or is refused with a
reason; any other name is refused with the nearest known one, unless the server was told to ignore those.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import msgspec

from pelton.errors import RequestError, nearest

T = TypeVar("T", bound=msgspec.Struct)


@dataclass(frozen=True, slots=True)
class Refused:
    """Why a field cannot be used, and the values that ask for nothing and so are taken. null always is."""

    why: str
    harmless: tuple[Any, ...] = ()

    def allows(self, value: Any) -> bool:
        """Whether `value` asks for nothing. True and 1 are not the same here."""
        return value is None or any(type(value) is type(h) and value == h for h in self.harmless)


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema(Generic[T]):
    """The fields of one route. `works` is a struct whose fields are optional; `about` documents them."""

    works: type[T]
    about: Mapping[str, str]
    required: tuple[str, ...] = ()
    without_effect: Mapping[str, str] = field(default_factory=dict)
    refused: Mapping[str, Refused] = field(default_factory=dict)

    @property
    def known(self) -> set[str]:
        """Every name that is in one of the three lists."""
        return {*self.works.__struct_fields__, *self.without_effect, *self.refused}

    def parse(self, raw: Any, *, ignore_unknown: bool = False) -> tuple[T, list[str]]:
        """The checked request, and the names of unknown fields that were ignored. Raises RequestError."""
        if not isinstance(raw, dict):
            raise RequestError(f"The body is {_JSON_NAMES.get(type(raw), 'no object')}, expected a JSON object.")
        unknown = []
        for name, value in raw.items():
            if name in self.refused and not self.refused[name].allows(value):
                raise RequestError(f"{name}: {self.refused[name].why}", param=name, code="unsupported_parameter")
            if name not in self.known:
                if not ignore_unknown:
                    raise self._unknown(name)
                unknown.append(_shorten(name))
        try:
            request = msgspec.convert(raw, self.works, strict=True)
        except msgspec.ValidationError as error:
            raise self._wrong_type(error) from error
        for name in self.required:
            if getattr(request, name) is None:
                raise RequestError(f"{name}: it is missing. {self.about[name]}", param=name, code="missing_parameter")
        return request, unknown

    def _unknown(self, name: str) -> RequestError:
        near = nearest(name[:64], self.known)
        hint = near if near.startswith("Did") else "See /docs for the known ones."
        return RequestError(
            f"{_shorten(name)!r} is not a known field. {hint}", param=_shorten(name), code="unknown_parameter"
        )

    def _wrong_type(self, error: msgspec.ValidationError) -> RequestError:
        what, _, path = str(error).partition(" - at `$.")
        where = path.rstrip("`")
        name = where.partition(".")[0].partition("[")[0]
        what = f"{what[0].lower()}{what[1:]}".replace("`", "")
        return RequestError(f"{where or 'body'}: {what}.", param=name or None, code="invalid_type")


_JSON_NAMES = {
    list: "a list",
    str: "a text",
    int: "a number",
    float: "a number",
    bool: "true or false",
    type(None): "null",
}


def _shorten(name: str) -> str:
    return name if len(name) <= 64 else f"{name[:64]}..."
