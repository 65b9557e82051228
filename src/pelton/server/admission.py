"""Whether there is room for a request: for all of them, and for those of its tenant.

Room is answers and tokens (prompts, and what answers may grow to). A request takes it before its body is read
(`enter`, by the length of the body), holds it until its answer has been sent, and sets it right once it is known what
it wants (`Held`). Whatever does not fit is refused at once: 429 for a tenant that has its share, 503 for the rest.

Invariant: what is held is given back once. A check and its count are one step of the event loop.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Final, NamedTuple, final

from pelton.errors import CapacityError, InternalError, RateLimited, RequestError

# How full the server is, from which on a level holds. One that holds ends HYSTERESIS below it.
LEVELS: Final = (0.0, 0.5, 0.75, 1.0)
HYSTERESIS: Final = 0.1
NORMAL, BUSY, NO_LOW_PRIORITY, FULL, DRAINING = range(5)
LEVEL_NAMES: Final = ("normal", "busy", "low priority is refused", "full", "shutting down")
JITTER: Final = 0.2  # so that those who were refused together do not come back together
NO_LIMIT: Final = 1 << 60
BYTES_PER_TOKEN: Final = 4


class Room(NamedTuple):
    """What a tenant may hold, and what of it is left."""

    max_live: int
    num_live_left: int
    max_tokens: int
    num_tokens_left: int


@final
class Held:
    """Room that one request holds. Made by `Admission.enter`."""

    def __init__(self, admission: Admission, tenant: str) -> None:
        self.num_answers = 0
        self.num_tokens = 0
        self.is_over = False
        self._admission = admission
        self._tenant = tenant

    def ask(self, num_answers: int, priority: int = 0) -> None:
        """Hold room for so many answers. Raises CapacityError or RateLimited, or RequestError if it is never there."""
        self._admission.check_wish(num_answers, priority)
        self._hold(num_answers, self.num_tokens)

    def settle(self, num_tokens: int) -> None:
        """Hold so many tokens from now on. Raises CapacityError or RateLimited; then what is held stays."""
        self._hold(self.num_answers, num_tokens)

    def expect(self, num_bytes: int) -> None:
        """Hold what a body of so many bytes may be worth, unless that is held already."""
        self._hold(self.num_answers, max(self.num_tokens, estimate_tokens(num_bytes)))

    def give_back(self) -> None:
        """Hold nothing any more, and never again."""
        self.is_over = True
        self._admission.move(self._tenant, -self.num_answers, -self.num_tokens)
        self.num_answers = self.num_tokens = 0

    def _hold(self, num_answers: int, num_tokens: int) -> None:
        if self.is_over:
            raise InternalError("admission: room was asked for by a request that has ended. Please report this.")
        self._admission.take(self._tenant, self, num_answers, num_tokens)
        self.num_answers, self.num_tokens = num_answers, num_tokens


def estimate_tokens(num_bytes: int) -> int:
    """What a body of this length is worth until its tokens are known: about what English text has."""
    return num_bytes // BYTES_PER_TOKEN


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

    def enter(self, tenant: str = "", num_bytes: int = 0) -> Held:
        """Take room for one answer to a body of `num_bytes`. Raises CapacityError or RateLimited."""
        held = Held(self, tenant)
        self.take(tenant, held, 1, estimate_tokens(num_bytes))
        held.num_answers, held.num_tokens = 1, estimate_tokens(num_bytes)
        return held

    def check_wish(self, num_answers: int, priority: int) -> None:
        """Raise RequestError if there is never so much room, CapacityError if the server is too busy for the class."""
        most = min(self.max_live, self._max_tenant_live)
        if num_answers > most:
            raise RequestError(f"n: {num_answers} answers asked for, this server takes at most {most}.", param="n")
        if priority > 0 and self._level >= NO_LOW_PRIORITY:
            raise CapacityError(
                "The server is busy and takes no requests of low priority. Try again later, or with priority 0.",
                retry_after_s=self._compute_retry_s(),
            )

    def take(self, tenant: str, held: Held, num_answers: int, num_tokens: int) -> None:
        """Count that `held` becomes so much. Raises CapacityError or RateLimited if it is too much: nothing changes."""
        more_answers, more_tokens = num_answers - held.num_answers, num_tokens - held.num_tokens
        if more_answers > 0:
            self._check_live(tenant, more_answers)
        if more_tokens > 0:
            self._check_tokens(tenant, held.num_tokens, more_tokens)
        self.move(tenant, more_answers, more_tokens)

    def move(self, tenant: str, num_answers: int, num_tokens: int) -> None:
        """Count what a tenant holds more, or less, whatever the limits are."""
        self.num_live += num_answers
        self.num_tokens += num_tokens
        for counter, count in ((self._live, num_answers), (self._tokens, num_tokens)):
            counter[tenant] += count
            if not counter[tenant]:
                del counter[tenant]
        self._set_level()

    def find_room(self, tenant: str) -> Room:
        """What this tenant may hold, and what it could take now."""
        return Room(
            self._max_tenant_live,
            max(0, min(self._max_tenant_live - self._live[tenant], self.max_live - self.num_live)),
            self._max_tenant_tokens,
            max(0, min(self._max_tenant_tokens - self._tokens[tenant], self.max_tokens - self.num_tokens)),
        )

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

    def _check_live(self, tenant: str, more: int) -> None:
        if self._is_draining:
            raise CapacityError("The server is shutting down. Try another one, or again later.", retry_after_s=5.0)
        if self.num_live + more > self.max_live:
            raise CapacityError(
                f"The server is full: {self.num_live} requests run or wait, at most {self.max_live} may. "
                "Try again later.",
                retry_after_s=self._compute_retry_s(),
            )
        if self._live[tenant] + more > self._max_tenant_live:
            raise RateLimited(
                f"You have {self._live[tenant]} requests that run or wait, at most {self._max_tenant_live} may. "
                "Try again when some have ended.",
                retry_after_s=self._compute_retry_s(),
            )

    def _check_tokens(self, tenant: str, held: int, more: int) -> None:
        """Whoever comes alone is taken, however large: whether it fits into the model is for others to say."""
        if self.num_tokens > held and self.num_tokens + more > self.max_tokens:
            raise CapacityError(
                f"The server is full: requests with {self.num_tokens} tokens run or wait, at most {self.max_tokens} "
                "may. Try again later.",
                retry_after_s=self._compute_retry_s(),
            )
        if self._tokens[tenant] > held and self._tokens[tenant] + more > self._max_tenant_tokens:
            raise RateLimited(
                f"You have requests with {self._tokens[tenant]} tokens that run or wait, at most "
                f"{self._max_tenant_tokens} may. Try again when some have ended.",
                retry_after_s=self._compute_retry_s(),
            )

    def _set_level(self) -> None:
        fill = max(self.num_live / max(1, self.max_live), self.num_tokens / self.max_tokens)
        level = max(index for index, least in enumerate(LEVELS) if fill >= least)
        if level < self._level < DRAINING and fill > LEVELS[self._level] - HYSTERESIS:
            level = self._level
        level = DRAINING if self._is_draining else level
        if level != self._level:
            self._level = level
            self._on_level(level)

    def estimate_retry_s(self) -> float:
        """Seconds after which another try may have more luck."""
        return max(0.1, self._estimate_wait_s())

    def _compute_retry_s(self) -> float:
        return self.estimate_retry_s() * self._random.uniform(1 - JITTER, 1 + JITTER)
