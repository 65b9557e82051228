"""Which running request gives its memory to others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pelton.engine.request import Request

MAX_PREEMPTIONS: Final = 3


def choose_victim(running: Sequence[Request]) -> Request | None:
    """The one of lowest class, of those the one that loses least, of those the youngest; None if nobody may be taken.

    `running` is in order of class and arrival. Its first is never taken, so there is always progress; nor is one that
    was taken MAX_PREEMPTIONS times, so nobody starts again forever.
    """
    candidates = [request for request in running[1:] if request.num_preemptions < MAX_PREEMPTIONS]
    if not candidates:
        return None
    return min(reversed(candidates), key=lambda request: (-request.order[0], request.num_computed_tokens))
