"""Log lines: one event, its fields, one line on stderr, as text for people or as JSON for programs.

Invariant: a value can neither break a line nor forge one, and fields that hold secrets are never written. Every line
written while a request is handled carries its id, from a context variable that follows async tasks.
Safe from any thread; a line costs about 30 us and is skipped early when its level is off.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, TextIO, final

SECRET_FIELDS: Final = frozenset({"api_key", "authorization", "hf_token", "password", "cookie"})
LEVELS: Final = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}

_request_id: ContextVar[str | None] = ContextVar("pelton_request_id", default=None)


@contextmanager
def request_context(request_id: str) -> Iterator[None]:
    """Lines written inside carry `request_id`, also in tasks started inside."""
    token = _request_id.set(request_id)
    try:
        yield
    finally:
        _request_id.reset(token)


@final
class Log:
    """Writes events of one part of the program. The event is a constant text; what varies is a field.

    log = Log("engine")
    log.warning("step is slow", step=17, duration_s=2.5)
    """

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(f"pelton.{name}")

    def debug(self, event: str, **fields: Any) -> None:
        """For the people who work on Pelton."""
        self._write(logging.DEBUG, event, fields)

    def info(self, event: str, **fields: Any) -> None:
        """Something that happens once, or once for each request."""
        self._write(logging.INFO, event, fields)

    def warning(self, event: str, **fields: Any) -> None:
        """It goes on, but somebody should know."""
        self._write(logging.WARNING, event, fields)

    def error(self, event: str, *, error: BaseException | None = None, **fields: Any) -> None:
        """Something failed. With `error`, its traceback is written too."""
        self._write(logging.ERROR, event, fields, error)

    def _write(self, level: int, event: str, fields: dict[str, Any], error: BaseException | None = None) -> None:
        if self._logger.isEnabledFor(level):
            extra = {"fields": fields, "request_id": fields.pop("request_id", None) or _request_id.get()}
            self._logger.log(level, event, exc_info=error, extra=extra)


@final
class LineFormatter(logging.Formatter):
    """Makes a line of a record, those of other libraries included."""

    def __init__(self, *, is_json: bool) -> None:
        super().__init__()
        self._is_json = is_json

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line. In text, a traceback follows on lines of its own, indented."""
        whole, part = divmod(record.created, 1)
        # Down, not to the nearest: 0.9996 s would otherwise read as 1000 ms.
        stamp = f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(whole))}.{int(part * 1000):03d}Z"
        name = record.name.removeprefix("pelton.")
        fields = {
            k: "(hidden)" if k.lower() in SECRET_FIELDS else v for k, v in record.__dict__.get("fields", {}).items()
        }
        if request_id := record.__dict__.get("request_id"):
            fields = {"request_id": request_id, **fields}
        trace = self.formatException(record.exc_info) if record.exc_info and record.exc_info[0] else ""
        level, event = record.levelname.lower(), record.getMessage()
        if self._is_json:
            head = {"time": stamp, "level": level, "part": name, "event": event}
            return json.dumps(head | fields | ({"traceback": trace} if trace else {}), default=str)
        words = [stamp, f"{level:<7}", f"{name}:", _on_one_line(event)]
        line = " ".join([*words, *(f"{k}={_quote(v)}" for k, v in fields.items())])
        return "\n    ".join([line, *trace.splitlines()])


def setup_logging(level: str = "info", log_format: str = "text", stream: TextIO | None = None) -> None:
    """Send all log lines of this process to `stream` (stderr). Libraries are heard from level warning on.

    Called once per process, before anything is logged; another call replaces the first.
    """
    handler = logging.StreamHandler(sys.stderr if stream is None else stream)
    handler.setFormatter(LineFormatter(is_json=log_format == "json"))
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    logging.getLogger("pelton").setLevel(LEVELS[level])


def _quote(value: Any) -> str:
    """A field's value: bare if it is one plain word, otherwise as JSON."""
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    is_plain = text.isascii() and text.isprintable() and text and not set(text) & set(' "=\\')
    return text if is_plain else json.dumps(text)


def _on_one_line(text: str) -> str:
    return text if text.isprintable() else json.dumps(text)[1:-1]
