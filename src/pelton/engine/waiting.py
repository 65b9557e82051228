"""Who comes next of those that wait: by class, then by what their tenants have had, then by arrival.

  class      a smaller priority comes first; who waits rises by one class every AGING_S, up to the first of those that
             wait and not beyond: so nobody waits forever, and among equals age does not count
  tenant     of equal class: whoever has had least, by a counter of tokens (VTC, Sheng et al. 2024, arXiv:2401.00588).
             A tenant that had nobody waiting is lifted to the least of those that had: nobody saves anything up
  arrival    within a tenant, those that were preempted first

With one tenant and one priority this is first come, first served. `first` costs O(classes * tenants) and does not
depend on how many wait.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Container, Iterator, Sequence
from typing import Final, final

from pelton.engine.request import Request

OUTPUT_WEIGHT: Final = (
    2.0  # what a token of an answer counts; one of a prompt that is computed counts 1, when it starts
)
AGING_S: Final = 30.0
FEW_ROWS: Final = 8
MAX_CLASS: Final = 8  # priorities beyond are of the class at the end, so that there are few classes


def _get_sequence(request: Request) -> int:
    return request.order[1]


def get_class(request: Request) -> int:
    """The class of a request; smaller comes first."""
    return max(-MAX_CLASS, min(MAX_CLASS, request.new.priority))


@final
class WaitingQueue:
    """The requests that hold nothing, and what every tenant has had."""

    def __init__(self) -> None:
        self._queues: dict[tuple[int, str], list[Request]] = {}  # by class and tenant; none is empty
        self._had: dict[str, float] = {}
        self._num_live: Counter[str] = Counter()  # requests of each tenant that have not ended
        self._num_queued: Counter[str] = Counter()  # of them, those that wait here; no tenant has 0
        self._last = ""  # the tenant that was the last to have nobody waiting any more
        self._first_tenant = ""  # that ever came
        self._is_shared = False  # whether there has ever been another
        self._num_waiting = 0
        self.num_tokens = 0  # of all that wait

    def __len__(self) -> int:
        return self._num_waiting

    def __iter__(self) -> Iterator[Request]:
        for queue in self._queues.values():
            yield from queue

    def enter(self, tenant: str) -> None:
        """A request of this tenant has come."""
        if not self._num_live:
            self._had.clear()
        self._is_shared |= tenant != (self._first_tenant or tenant)
        self._first_tenant = self._first_tenant or tenant
        self._num_live[tenant] += 1

    def leave(self, tenant: str) -> None:
        """A request of this tenant has ended."""
        self._num_live[tenant] -= 1
        if not self._num_live[tenant]:
            del self._num_live[tenant]

    def charge(self, tenant: str, num_tokens: float) -> None:
        """The tenant has had this much."""
        self._had[tenant] = self._had.get(tenant, 0.0) + num_tokens

    def get_charge(self, tenant: str) -> float:
        """What the tenant has had."""
        return self._had.get(tenant, 0.0)

    def add(self, request: Request) -> None:
        """Let a request wait."""
        tenant = request.new.tenant
        if tenant not in self._num_queued:
            least = min(map(self.get_charge, self._num_queued), default=self.get_charge(self._last))
            self._had[tenant] = max(self.get_charge(tenant), least)
        self._num_queued[tenant] += 1
        insort(self._queues.setdefault(_get_key(request), []), request, key=_get_sequence)
        self._num_waiting += 1
        self.num_tokens += request.num_tokens

    def remove(self, request: Request) -> None:
        """Take out a request that waits."""
        queue = self._queues[_get_key(request)]
        index = bisect_left(queue, _get_sequence(request), key=_get_sequence)
        assert queue[index] is request, "a request is not in the queue of its tenant"
        del queue[index]
        if not queue:
            del self._queues[_get_key(request)]
        self._last = request.new.tenant
        self._num_queued[self._last] -= 1
        if not self._num_queued[self._last]:
            del self._num_queued[self._last]
        self._num_waiting -= 1
        self.num_tokens -= request.num_tokens

    def find_barred(self, running: Sequence[Request], num_rows: int) -> frozenset[str]:
        """The tenants that may not start another request beside `running`: for the last row, those that have one.

        So a tenant that wants little does not wait until somebody of one that wants all has ended. No row is kept
        where each counts, nor before a second tenant has come.
        """
        if len(running) < num_rows - 1 or num_rows < FEW_ROWS or not self._is_shared:
            return frozenset()
        return frozenset(request.new.tenant for request in running)

    def first(self, now_s: float, barred: Container[str] = ()) -> Request | None:
        """The one that comes next, of tenants that are not barred, or None."""
        best: Request | None = None
        best_rank: tuple[int, float, int] = (0, 0.0, 0)
        first_class = min((class_ for class_, _ in self._queues), default=0)
        for (class_, tenant), queue in self._queues.items():
            if tenant in barred:
                continue
            head = queue[0]
            age = int(max(0.0, now_s - head.arrival_s) / AGING_S)
            rank = (max(class_ - age, first_class), self._had.get(tenant, 0.0), _get_sequence(head))
            if best is None or rank < best_rank:
                best, best_rank = head, rank
        return best

    def check(self) -> None:
        """Raise AssertionError if counts and queues contradict each other."""
        assert sum(map(len, self._queues.values())) == self._num_waiting, "the count of waiting requests is wrong"
        assert sum(request.num_tokens for request in self) == self.num_tokens, "the count of waiting tokens is wrong"
        queued = Counter(request.new.tenant for request in self)
        assert queued == self._num_queued, "the count of a tenant's waiting requests is wrong"
        for key, queue in self._queues.items():
            assert queue, "a queue is empty"
            assert queue == sorted(queue, key=_get_sequence), "a queue is out of order"
            assert all(_get_key(request) == key for request in queue), "a request is in the queue of another tenant"


def _get_key(request: Request) -> tuple[int, str]:
    return get_class(request), request.new.tenant
