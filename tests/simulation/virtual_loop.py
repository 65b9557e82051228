"""An event loop whose time is a number: sleeping costs nothing, and a run depends on nothing but its seed.

Nothing outside may wake it: work for threads is done at once, and waiting with no timer left is an error, because it
would never end.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Nowhere(selectors.SelectSelector):
    """A selector that sees no bytes, and lets time pass instead of waiting."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        """Called by the loop: nothing is ready before the next timer."""
        if timeout is None:
            raise AssertionError("everybody waits, and nothing will ever happen")
        self.now_s += max(timeout, 0.0)
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop in virtual time."""

    def __init__(self) -> None:
        self._nowhere = Nowhere()
        super().__init__(self._nowhere)

    def time(self) -> float:
        """Seconds of virtual time."""
        return self._nowhere.now_s

    def run_in_executor(self, _executor: Any, work: Callable[..., T], *args: Any) -> asyncio.Future[T]:
        """`work` done now, on this thread."""
        future: asyncio.Future[T] = self.create_future()
        try:
            future.set_result(work(*args))
        except Exception as error:  # noqa: BLE001  a future hands on whatever it is
            future.set_exception(error)
        return future


def run_virtually(main: Coroutine[Any, Any, T]) -> T:
    """The result of `main` on a loop of its own."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)
