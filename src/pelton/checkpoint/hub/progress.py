"""How far a download is, on standard error: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as Bar
    from rich.progress import TaskID


@final
class Progress:
    """A context manager that shows `num_bytes` of `total_bytes`. Shows nothing unless `is_shown`."""

    def __init__(self, title: str, total_bytes: int, *, is_shown: bool = True) -> None:
        self._title = title
        self._total_bytes = total_bytes
        self._is_shown = is_shown
        self.num_bytes = 0
        self._bar: Bar | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Progress:
        if self._is_shown:
            self._start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def add(self, num_bytes: int) -> None:
        """More bytes are there."""
        self.move_to(self.num_bytes + num_bytes)

    def move_to(self, num_bytes: int) -> None:
        """So many bytes are there in all."""
        self.num_bytes = num_bytes
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=num_bytes)

    def say(self, text: str) -> None:
        """A line for those who have no bar."""
        if self._is_shown and not self._console().is_terminal:
            share = 100 * self.num_bytes // max(self._total_bytes, 1)
            self._console().print(f"{self._title}: {share} % there; {text}", highlight=False, soft_wrap=True)

    def _start(self) -> None:
        from rich import progress  # noqa: PLC0415

        console = self._console()
        if not console.is_terminal:
            return
        columns = (
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
            progress.DownloadColumn(),
            progress.TransferSpeedColumn(),
            progress.TimeRemainingColumn(),
        )
        self._bar = progress.Progress(*columns, console=console)
        self._task = self._bar.add_task(self._title, total=self._total_bytes, completed=self.num_bytes)
        self._bar.start()

    def _console(self) -> Console:
        from rich.console import Console  # noqa: PLC0415

        return Console(stderr=True)
