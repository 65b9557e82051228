"""A progress bar on stderr, if that is a terminal. Knows counts and rates, nothing of engines."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    from rich.progress import Progress


@final
class ProgressBar:
    """`advance` once for each finished item. Without a terminal, or if not shown, it does nothing."""

    def __init__(self, title: str, total: int, *, is_shown: bool = True) -> None:
        self._title = title
        self._total = total
        self._is_shown = is_shown and sys.stderr.isatty()
        self._progress: Progress | None = None
        self._start_s = 0.0
        self._num_tokens = 0

    def advance(self, num_tokens: int = 0) -> None:
        """One more item is done, with so many tokens of output."""
        self._num_tokens += num_tokens
        if self._progress is not None:
            rate = self._num_tokens / max(time.monotonic() - self._start_s, 1e-9)
            self._progress.update(self._progress.task_ids[0], advance=1, description=f"{self._title} {rate:.0f} tok/s")

    def __enter__(self) -> ProgressBar:
        if self._is_shown:
            from rich.console import Console  # noqa: PLC0415  30 ms, and only terminals need it
            from rich.progress import Progress  # noqa: PLC0415

            self._progress = Progress(console=Console(stderr=True), transient=True)
            self._progress.add_task(self._title, total=self._total)
            self._progress.start()
            self._start_s = time.monotonic()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._progress is not None:
            self._progress.stop()
