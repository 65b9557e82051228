"""Which live requests are given to an engine, and in which order, after its predecessor went.

All of them at once, if the engine was killed from outside. If it failed by itself one of its requests may be why: those
of the step it failed in are suspects, and each is tried alone, the newest first, before anybody else is sent. One that
takes the engine with it a second time has failed, alone; one that gets a token is cleared, and goes on beside the next
that is tried. If that step fails, all of it are suspects again, and who was tried is tried first. Who is in the engine
for MAX_KILLS kills and gets no token in between is a suspect too: a system that is out of memory kills from outside. Of
a trial, a kill proves nothing, but MAX_TRIAL_KILLS do, and so do MAX_FAILURES beside others: it has to end.

Bookkeeping only: knows no process and no clock. Belongs to the client's event loop.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Final, final

from pelton.core.step import RequestId

MAX_KILLS: Final = 3
MAX_TRIAL_KILLS: Final = 3
MAX_FAILURES: Final = 10


@final
class Replay:
    """Who may be sent now. `down`, `up` and `answered` are told what happens; `choose` says whom to send."""

    def __init__(self) -> None:
        self._kills: Counter[RequestId] = Counter()
        self._failures: Counter[RequestId] = Counter()  # of steps that they were part of
        self._trial_kills: Counter[RequestId] = Counter()  # of who is a suspect
        self._suspects: list[RequestId] = []  # the last one is tried next
        self._trial: RequestId | None = None

    @property
    def is_trying(self) -> bool:
        """Whether somebody is tried alone, so that all others wait."""
        return self._trial is not None or bool(self._suspects)

    def down(
        self,
        working: Sequence[RequestId],
        live: Collection[RequestId],
        *,
        is_external: bool,
        answered: Collection[RequestId] = (),
    ) -> RequestId | None:
        """The engine went during a step of `working`. The request that is to blame and must end, if there is one.

        `answered` got a token from this engine: whatever killed it, they did not do it by their mere presence.
        """
        involved = [request_id for request_id in working if request_id in live]
        trial, self._trial = self._trial, None
        self._count(involved, live, answered, is_external=is_external)
        if trial is not None:
            self._trial_kills[trial] += is_external and trial in working
            if self._is_proved(trial, working, is_external=is_external):
                self._trial_kills.pop(trial, None)
                return trial
        if is_external:
            involved = [request_id for request_id in involved if self._kills[request_id] >= MAX_KILLS]
        if trial is not None:
            others = [request_id for request_id in involved if request_id != trial]
            involved = [*others, trial] if trial in working else [trial, *others]
        known = set(involved)
        self._suspects = [suspect for suspect in self._suspects if suspect not in known] + involved
        return None

    def _is_proved(self, trial: RequestId, working: Sequence[RequestId], *, is_external: bool) -> bool:
        if is_external:
            return self._trial_kills[trial] >= MAX_TRIAL_KILLS
        return list(working) == [trial] or (trial in working and self._failures[trial] >= MAX_FAILURES)

    def _count(
        self,
        involved: Sequence[RequestId],
        live: Collection[RequestId],
        answered: Collection[RequestId],
        *,
        is_external: bool,
    ) -> None:
        kills, failures = self._kills.items(), self._failures.items()
        self._kills = Counter({each: count for each, count in kills if each in live and each not in answered})
        self._failures = Counter({each: count for each, count in failures if each in live})
        if is_external:
            self._kills.update(request_id for request_id in involved if request_id not in answered)
        else:
            self._failures.update(involved)

    def choose(self, unsent: Sequence[RequestId]) -> list[RequestId]:
        """Whom of `unsent`, in order of arrival, to send to the engine now."""
        waiting = set(unsent)
        if self._trial is not None:
            return []
        while self._suspects:
            suspect = self._suspects.pop()
            if suspect in waiting:
                self._trial = suspect
                return [suspect]
        return list(unsent)

    def answered(self, request_id: RequestId) -> bool:
        """The request got a token, or has ended. True if others may be sent now that had to wait for it."""
        if request_id != self._trial:
            return False
        self._trial = None
        self._trial_kills.pop(request_id, None)
        return True

    def forget(self, request_id: RequestId) -> bool:
        """The request has ended or left. True if others may be sent now that had to wait for it."""
        self._kills.pop(request_id, None)
        self._failures.pop(request_id, None)
        self._trial_kills.pop(request_id, None)
        return self.answered(request_id)
