"""JSON of strangers: UTF-8 only, one object, no key twice, no NaN, bounded in size and depth."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NoReturn

from pelton.checkpoint.mapped_file import MappedFile
from pelton.errors import CheckpointError

_MAX_FILE_BYTES = 64 << 20


class _Refused(ValueError):
    """Why a document is not accepted although a lenient parser would."""


def parse_object(raw: bytes, where: str) -> dict[str, Any]:
    """The object that `raw` holds. Raises CheckpointError, beginning with `where`, for anything else."""
    try:
        value = json.loads(raw.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_refuse_constant)
    except UnicodeDecodeError:
        raise CheckpointError(f"{where}: is not valid UTF-8.") from None
    except RecursionError:
        raise CheckpointError(f"{where}: is nested too deeply.") from None
    except ValueError as error:
        raise CheckpointError(f"{where}: is not valid JSON: {error}.") from None
    if not isinstance(value, dict):
        raise CheckpointError(f"{where}: holds a {type(value).__name__}; expected an object.")
    return value


def load_object(path: Path) -> dict[str, Any]:
    """The object in the file at `path`. Raises CheckpointError, also for a file that is not there."""
    file = MappedFile(path)
    if file.size > _MAX_FILE_BYTES:
        raise CheckpointError(f"{path}: has {file.size} bytes; at most {_MAX_FILE_BYTES} are read.")
    return parse_object(file.data.tobytes(), str(path))


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise _Refused(f"the key {twice[:100]!r} stands in an object twice")
    return value


def _refuse_constant(text: str) -> NoReturn:
    raise _Refused(f"{text} is not a JSON number")
