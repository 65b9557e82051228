"""Progress bars on stderr, if that is a terminal: of items that are done, and of a start with its stages."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
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


@final
class StartBar:
    """Call it with a stage and how much of the whole start is done (0 to 1). Does nothing without a terminal."""

    def __init__(self, *, is_shown: bool = True) -> None:
        self._is_shown = is_shown and sys.stderr.isatty()
        self._progress: Progress | None = None

    def __call__(self, stage: str, fraction: float) -> None:
        """Show that `stage` has been reached."""
        if self._progress is not None:
            self._progress.update(self._progress.task_ids[0], completed=fraction, description=stage)

    def __enter__(self) -> StartBar:
        if self._is_shown:
            from rich.console import Console  # noqa: PLC0415
            from rich.progress import Progress  # noqa: PLC0415

            self._progress = Progress(console=Console(stderr=True), transient=True)
            self._progress.add_task("starting", total=1.0)
            self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._progress is not None:
            self._progress.stop()


def in_steps(report: Callable[[float], None], step: float = 0.05) -> Callable[[float], None]:
    """Passes on a growing fraction whenever it has grown by `step`, and when it is 1.

    >>> in_steps(print, 0.5)(0.5)
    0.5
    """
    last = 0.0

    def hear(fraction: float) -> None:
        nonlocal last
        if fraction - last >= step or last < 1.0 <= fraction:
            last = fraction
            report(fraction)

    return hear


@final
class ByteBar:
    """Stages of long work on files, each with its bytes. Without a terminal it tells of each stage by one line."""

    def __init__(self) -> None:
        self._progress: Progress | None = None

    def begin(self, stage: str, num_bytes: int) -> None:
        """A stage of so many bytes begins; 0 if nobody knows."""
        if self._progress is None:
            print(f"pelton: {stage} ...", file=sys.stderr, flush=True)
            return
        for task in self._progress.task_ids:
            self._progress.remove_task(task)
        self._progress.add_task(stage, total=num_bytes or None)

    def advance(self, num_bytes: int) -> None:
        """So many bytes more are done."""
        if self._progress is not None and self._progress.task_ids:
            self._progress.update(self._progress.task_ids[0], advance=num_bytes)

    def __enter__(self) -> ByteBar:
        if sys.stderr.isatty():
            from rich.console import Console  # noqa: PLC0415  30 ms, and only terminals need it
            from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn  # noqa: PLC0415

            columns = ("{task.description}", BarColumn(), DownloadColumn(), TimeRemainingColumn())
            self._progress = Progress(*columns, console=Console(stderr=True), transient=True)
            self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._progress is not None:
            self._progress.stop()
