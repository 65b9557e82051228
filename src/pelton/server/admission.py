"""Whether there is room for a request: for all of them, and for those of its tenant.

Room is answers and tokens (prompts, and what answers may grow to). It is asked for before a body is read (`check`),
held from before any work until the last event (`reserve`), and set right once tokens are known (`Held.settle`).
Whatever does not fit is refused at once: 429 for a tenant that has its share, 503 for the rest.

Invariant: what is held is given back when its block ends. A check and its count are one step of the event loop.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, final

from pelton.errors import CapacityError, RateLimited, RequestError

# How full the server is, from which on a level holds. One that holds ends HYSTERESIS below it.
LEVELS: Final = (0.0, 0.5, 0.75, 1.0)
HYSTERESIS: Final = 0.1
NORMAL, BUSY, NO_LOW_PRIORITY, FULL, DRAINING = range(5)
LEVEL_NAMES: Final = ("normal", "busy", "low priority is refused", "full", "shutting down")
JITTER: Final = 0.2  # so that those who were refused together do not come back together
NO_LIMIT: Final = 1 << 60


@final
class Held:
    """Room that one request holds."""

    def __init__(self, admission: Admission, tenant: str, num_answers: int) -> None:
        self._admission = admission
        self._tenant = tenant
        self._num_answers = num_answers
        self._num_tokens = 0

    def settle(self, num_tokens: int) -> None:
        """Hold so many tokens from now on. Raises CapacityError or RateLimited; then what is held stays."""
        self._admission.take(self._tenant, 0, num_tokens - self._num_tokens)
        self._num_tokens = num_tokens

    def give_back(self) -> None:
        """Hold nothing any more."""
        self._admission.give_back(self._tenant, self._num_answers, self._num_tokens)
        self._num_answers = self._num_tokens = 0


@final
class Admission:
    """What is held, and what may be. `tenant_share` is the part of all room that one tenant may hold."""

    def __init__(
        self,
        max_live: int,
        max_tokens: int = NO_LIMIT,
        *,
        tenant_share: float = 1.0,
        estimate_wait_s: Callable[[], float] = lambda: 1.0,
        on_level: Callable[[int], None] = lambda level: None,
    ) -> None:
        self.max_live = max_live
        self.max_tokens = max_tokens
        self.num_live = 0
        self.num_tokens = 0
        self._max_tenant_live = max(1, int(max_live * tenant_share))
        self._max_tenant_tokens = max(1, int(max_tokens * tenant_share))
        self._live: Counter[str] = Counter()
        self._tokens: Counter[str] = Counter()
        self._estimate_wait_s = estimate_wait_s
        self._on_level = on_level
        self._level = NORMAL
        self._is_draining = False
        self._random = random.Random()

    @property
    def level(self) -> int:
        """How the server bears its load: an index of LEVEL_NAMES."""
        return self._level

    @property
    def is_draining(self) -> bool:
        """Whether nobody is let in any more."""
        return self._is_draining

    @is_draining.setter
    def is_draining(self, value: bool) -> None:
        self._is_draining = value
        self._set_level()

    def check(self, tenant: str = "", num_bytes: int = 0) -> None:
        """Raise what `reserve` would for one answer to a body of `num_bytes`. Costs next to nothing."""
        self._check_room(tenant, 1, num_bytes // 16)  # no tokenizer makes less of text; sure ones only are refused here

    @contextmanager
    def reserve(self, count: int, tenant: str = "", priority: int = 0) -> Iterator[Held]:
        """Hold room for `count` answers. Raises CapacityError, or RequestError if there is never so much room."""
        most = min(self.max_live, self._max_tenant_live)
        if count > most:
            raise RequestError(f"n: {count} answers asked for, this server takes at most {most}.", param="n")
        if priority > 0 and self._level >= NO_LOW_PRIORITY:
            raise CapacityError(
                "The server is busy and takes no requests of low priority. Try again later, or with priority 0.",
                retry_after_s=self._compute_retry_s(),
            )
        self.take(tenant, count, 0)
        held = Held(self, tenant, count)
        try:
            yield held
        finally:
            held.give_back()

    def take(self, tenant: str, num_answers: int, num_tokens: int) -> None:
        """Count what is taken. Raises CapacityError or RateLimited and changes nothing if it is too much."""
        if num_answers > 0 or num_tokens > 0:
            self._check_room(tenant, num_answers, num_tokens)
        self._count(tenant, num_answers, num_tokens)

    def give_back(self, tenant: str, num_answers: int, num_tokens: int) -> None:
        """Count what is not held any more."""
        self._count(tenant, -num_answers, -num_tokens)

    def check_deadline(self, deadline_s: float, now_s: float) -> None:
        """Raise CapacityError if a request that comes now would not begin before its deadline."""
        wait_s = self._estimate_wait_s()
        if deadline_s and now_s + wait_s > deadline_s:
            raise CapacityError(
                f"The server would begin with this request in about {wait_s:.1f} s, after its deadline. "
                "Try again later, or with a longer timeout.",
                retry_after_s=self._compute_retry_s(),
            )

    def is_empty(self) -> bool:
        """Whether nothing is held by anybody."""
        return not (self.num_live or self.num_tokens or +self._live or +self._tokens)

    def _check_room(self, tenant: str, num_answers: int, num_tokens: int) -> None:
        if self._is_draining and num_answers:
            raise CapacityError("The server is shutting down. Try another one, or again later.", retry_after_s=5.0)
        if self.num_live + num_answers > self.max_live:
            raise CapacityError(
                f"The server is full: {self.num_live} requests run or wait, at most {self.max_live} may. "
                "Try again later.",
                retry_after_s=self._compute_retry_s(),
            )
        if self.num_tokens and self.num_tokens + num_tokens > self.max_tokens:
            raise CapacityError(
                f"The server is full: requests with {self.num_tokens} tokens run or wait, at most {self.max_tokens} "
                "may. Try again later.",
                retry_after_s=self._compute_retry_s(),
            )
        if self._live[tenant] + num_answers > self._max_tenant_live:
            raise RateLimited(
                f"You have {self._live[tenant]} requests that run or wait, at most {self._max_tenant_live} may. "
                "Try again when some have ended.",
                retry_after_s=self._compute_retry_s(),
            )
        if self._tokens[tenant] and self._tokens[tenant] + num_tokens > self._max_tenant_tokens:
            raise RateLimited(
                f"You have requests with {self._tokens[tenant]} tokens that run or wait, at most "
                f"{self._max_tenant_tokens} may. Try again when some have ended.",
                retry_after_s=self._compute_retry_s(),
            )

    def _count(self, tenant: str, num_answers: int, num_tokens: int) -> None:
        self.num_live += num_answers
        self.num_tokens += num_tokens
        for counter, count in ((self._live, num_answers), (self._tokens, num_tokens)):
            counter[tenant] += count
            if not counter[tenant]:
                del counter[tenant]
        self._set_level()

    def _set_level(self) -> None:
        fill = max(self.num_live / max(1, self.max_live), self.num_tokens / self.max_tokens)
        level = max(index for index, least in enumerate(LEVELS) if fill >= least)
        if level < self._level < DRAINING and fill > LEVELS[self._level] - HYSTERESIS:
            level = self._level
        level = DRAINING if self._is_draining else level
        if level != self._level:
            self._level = level
            self._on_level(level)

    def _compute_retry_s(self) -> float:
        return max(0.1, self._estimate_wait_s()) * self._random.uniform(1 - JITTER, 1 + JITTER)
