"""The environment variables of Pelton, all of them, and the only place that reads the environment.

Invariant: a variable has one row in VARIABLES, which is its check and its documentation; there are at most twelve.
A wrong value is an error that lists the allowed ones. A misspelled name is reported, not refused: cluster software
sets variables like PELTON_SERVICE_HOST on its own.
Read at start by every process; nothing is cached, and nothing is written back.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pelton.errors import ConfigError

ISA_NAMES: Final = ("generic", "avx2", "avx512")
LOG_LEVELS: Final = ("debug", "info", "warning", "error")


@dataclass(frozen=True, slots=True)
class Variable:
    """One environment variable: the field it fills, how its text is read, what the documentation says."""

    name: str
    field: str
    parse: Callable[[str, str], Any]
    help: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """What the environment asks for. None and False mean that it does not ask."""

    cache_dir: Path
    api_key: str | None = None
    log_level: str | None = None
    isa: str | None = None
    is_offline: bool = False
    config_file: Path | None = None


def _text(_name: str, text: str) -> str:
    return text


def _path(_name: str, text: str) -> Path:
    return Path(text).expanduser()


def _flag(name: str, text: str) -> bool:
    values = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
    if text.lower() not in values:
        raise ConfigError(f"{name}: {text!r} is not a yes or no. Allowed: {', '.join(values)}.")
    return values[text.lower()]


def _choice(*allowed: str) -> Callable[[str, str], str]:
    def parse(name: str, text: str) -> str:
        if text.lower() not in allowed:
            raise ConfigError(f"{name}: {text!r} is not known. Allowed: {', '.join(allowed)}.")
        return text.lower()

    return parse


VARIABLES: Final = (
    Variable("PELTON_CACHE", "cache_dir", _path, "Folder for downloaded models. Default: the user's cache folder."),
    Variable("PELTON_API_KEY", "api_key", _text, "The key that clients must send; the same as --api-key."),
    Variable("PELTON_LOG_LEVEL", "log_level", _choice(*LOG_LEVELS), "The same as --log-level."),
    Variable("PELTON_ISA", "isa", _choice(*ISA_NAMES), "Highest instruction set the kernels may use. Default: best."),
    Variable("PELTON_OFFLINE", "is_offline", _flag, "Download nothing: what is not in the cache is an error."),
    Variable("PELTON_CONFIG", "config_file", _path, "Configuration file; the same as --config."),
)


def get_environment(variables: Mapping[str, str] | None = None) -> Environment:
    """The checked environment of this process, or of `variables`. An empty variable counts as unset.

    >>> get_environment({"PELTON_ISA": "avx2"}).isa
    'avx2'
    """
    given = os.environ if variables is None else variables
    values = {v.field: v.parse(v.name, given[v.name]) for v in VARIABLES if given.get(v.name)}
    if "cache_dir" not in values:
        user_cache = given.get("XDG_CACHE_HOME") or "~/.cache"
        values["cache_dir"] = Path(user_cache).expanduser() / "pelton"
    return Environment(**values)


def find_misspelled(variables: Mapping[str, str] | None = None) -> list[str]:
    """One sentence for each PELTON_ variable that is set and looks like a known one with a typing error.

    >>> find_misspelled({"PELTON_CACHED": "x", "PELTON_SERVICE_HOST": "10.0.0.1"})
    ["PELTON_CACHED is not read by Pelton. Did you mean 'PELTON_CACHE'?"]
    """
    given = os.environ if variables is None else variables
    known = [v.name for v in VARIABLES]
    unknown = sorted(name for name in given if name.startswith("PELTON_") and name not in known)
    near = {name: difflib.get_close_matches(name, known, n=1, cutoff=0.85) for name in unknown}
    return [f"{name} is not read by Pelton. Did you mean {close[0]!r}?" for name, close in near.items() if close]


def make_child_environment(**changes: str) -> dict[str, str]:
    """This process's environment with `changes`, for a process that it starts."""
    return {**os.environ, **changes}
