"""When things happened to a request, from what the engine says of each of its answers.

Invariant: durations are None until both of their ends are known, and never negative. All times are of the monotonic
clock of the machine, which the server and the engine share.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self, final

import msgspec

from pelton.core.outputs import Timings


@final
class AnswerTimes:
    """The times of one answer, `now`, over all the engines that worked on it."""

    __slots__ = ("_num_preemptions_before", "now")

    def __init__(self) -> None:
        self.now = Timings()
        self._num_preemptions_before = 0  # by engines that are gone

    def take(self, new: Timings) -> None:
        """What the engine says now. One that took the request over does not know of the time before."""
        if new.num_restarts == 0:
            self.now = new
            return
        old = self.now
        if new.num_restarts > old.num_restarts:
            self._num_preemptions_before = old.num_preemptions
        self.now = msgspec.structs.replace(
            new,
            first_scheduled_s=old.first_scheduled_s or new.first_scheduled_s,
            first_token_s=old.first_token_s or new.first_token_s,
            last_token_s=max(old.last_token_s, new.last_token_s),
            num_preemptions=self._num_preemptions_before + new.num_preemptions,
        )


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class RequestTimes:
    """All answers of a request together: from the first that was scheduled to the last token of the last one."""

    arrival_s: float = 0.0
    first_scheduled_s: float = 0.0
    first_token_s: float = 0.0
    last_token_s: float = 0.0
    num_preemptions: int = 0
    num_restarts: int = 0

    @classmethod
    def join(cls, timings: Sequence[Timings]) -> Self:
        """Of the timings of each answer."""
        return cls(
            arrival_s=_earliest(t.arrival_s for t in timings),
            first_scheduled_s=_earliest(t.first_scheduled_s for t in timings),
            first_token_s=_earliest(t.first_token_s for t in timings),
            last_token_s=max((t.last_token_s for t in timings), default=0.0),
            num_preemptions=sum(t.num_preemptions for t in timings),
            num_restarts=max((t.num_restarts for t in timings), default=0),
        )

    @property
    def queue_s(self) -> float | None:
        """Arrival to the first step."""
        return _between(self.arrival_s, self.first_scheduled_s)

    @property
    def prefill_s(self) -> float | None:
        """First step to first token."""
        return _between(self.first_scheduled_s, self.first_token_s)

    @property
    def decode_s(self) -> float | None:
        """First token to last token."""
        return _between(self.first_token_s, self.last_token_s)


def _earliest(times: Iterable[float]) -> float:
    """The least of those that have happened; 0 if none has."""
    return min((time_s for time_s in times if time_s), default=0.0)


def _between(start_s: float, end_s: float) -> float | None:
    return max(0.0, end_s - start_s) if start_s and end_s else None
