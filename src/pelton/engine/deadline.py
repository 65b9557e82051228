"""When requests must have ended. O(log n) per request."""

from __future__ import annotations

import heapq
from typing import final

from pelton.core.step import NewRequest, RequestId


@final
class Deadlines:
    """The deadlines of requests, those that have ended included until they pass."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, RequestId]] = []

    def add(self, new: NewRequest) -> None:
        """Remember a request's deadline, if it has one."""
        if new.deadline_s > 0.0:
            heapq.heappush(self._heap, (new.deadline_s, new.request_id))

    def take_passed(self, now_s: float) -> list[tuple[float, RequestId]]:
        """The deadlines that have passed since the last call, with their requests."""
        passed = []
        while self._heap and self._heap[0][0] <= now_s:
            passed.append(heapq.heappop(self._heap))
        return passed
