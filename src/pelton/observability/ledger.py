"""Where every answer that was asked of a server is: it lives, it has ended by some reason, or it was refused.

Invariant, at every moment: received = live + finished + refused, in total and for each tenant. `live` is counted up and
down by itself, not computed from the others, so that a request that is lost or counted twice shows (`check`).
Belongs to the event loop of the server. Plain integers; metrics read them when somebody scrapes.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final, final

FINISH_REASONS: Final = ("stop", "length", "abort", "client_too_slow", "deadline", "error")
MAX_TENANTS: Final = 64  # with counts of their own; all further ones are one
DEFAULT_TENANT: Final = "default"  # of requests that belong to nobody
OTHER_TENANTS: Final = "other"


@final
@dataclass(slots=True)
class TenantCounts:
    """What one tenant has asked for and got."""

    num_received: int = 0
    num_live: int = 0
    num_finished: int = 0
    num_refused: int = 0
    num_prompt_tokens: int = 0
    num_cached_tokens: int = 0
    num_output_tokens: int = 0


@final
@dataclass(slots=True)
class Ledger:
    """The answers of one server. `refused` is by stage and HTTP status."""

    num_received: int = 0
    num_live: int = 0
    finished: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(FINISH_REASONS, 0)))
    refused: Counter[tuple[str, int]] = field(default_factory=Counter)
    tenants: dict[str, TenantCounts] = field(default_factory=dict)

    def receive(self, count: int = 1, tenant: str = "") -> None:
        """`count` answers are asked for; they live from here on."""
        self.num_received += count
        self.num_live += count
        counts = self.of(tenant)
        counts.num_received += count
        counts.num_live += count

    def finish(self, reason: str, tenant: str = "") -> None:
        """A live answer has ended, whole or not."""
        self.num_live -= 1
        self.finished[reason] += 1
        counts = self.of(tenant)
        counts.num_live -= 1
        counts.num_finished += 1

    def refuse(self, count: int, stage: str, status: int, tenant: str = "") -> None:
        """`count` live answers will not be made: the request was turned away at `stage`."""
        self.num_live -= count
        self.refused[stage, status] += count
        counts = self.of(tenant)
        counts.num_live -= count
        counts.num_refused += count

    def use(self, *, prompt: int = 0, cached: int = 0, output: int = 0, tenant: str = "") -> None:
        """Add to the tokens that a tenant's requests took: the same numbers as in the `usage` of their answers."""
        counts = self.of(tenant)
        counts.num_prompt_tokens += prompt
        counts.num_cached_tokens += cached
        counts.num_output_tokens += output

    def split_live(self, num_computing: int) -> tuple[int, int]:
        """Live answers as (running, waiting). `num_computing` is the engine's own figure, a step old at most.

        What the engine computes beyond the live ones has ended here already, and it hears of that before its next step.
        """
        num_running = max(0, min(num_computing, self.num_live))
        return num_running, self.num_live - num_running

    def of(self, tenant: str) -> TenantCounts:
        """The counts that `tenant` belongs to. Labels are bounded: tenants after MAX_TENANTS share theirs."""
        name = tenant or DEFAULT_TENANT
        if name not in self.tenants and len(self.tenants) >= MAX_TENANTS:
            name = OTHER_TENANTS
        return self.tenants.setdefault(name, TenantCounts())

    def check(self) -> None:
        """Raise AssertionError if an answer is nowhere, or in two places."""
        num_ended = self.finished.total() + self.refused.total()
        assert self.num_received == self.num_live + num_ended, "an answer is nowhere, or in two places"
        assert self.num_live >= 0, "more answers have ended than were asked for"
        tenants = self.tenants.values()
        for counts in tenants:
            num_ended = counts.num_finished + counts.num_refused
            assert counts.num_received == counts.num_live + num_ended, "a tenant's answer is lost"
            assert counts.num_live >= 0, "more answers of a tenant have ended than it asked for"
        assert sum(counts.num_received for counts in tenants) == self.num_received, "an answer belongs to no tenant"
