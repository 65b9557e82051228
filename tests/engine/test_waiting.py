"""Who comes next: class, tenant, arrival; against a queue that sorts everything every time."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.engine.fakes import make_request

from pelton.engine.request import Request
from pelton.engine.waiting import AGING_S, FEW_ROWS, MAX_CLASS, WaitingQueue, get_class

pytestmark = pytest.mark.unit


def make(sequence: int, *, tenant: str = "", priority: int = 0, arrival_s: float = 0.0, tokens: int = 5) -> Request:
    new = make_request(str(sequence), tokens, tenant=tenant, priority=priority)
    return Request(new, sequence, 100, arrival_s)


def drain(queue: WaitingQueue, now_s: float = 0.0, cost: float = 0.0) -> list[int]:
    """The order in which all come; each costs its tenant so much."""
    order = []
    while (request := queue.first(now_s)) is not None:
        queue.remove(request)
        queue.charge(request.new.tenant, cost)
        queue.check()
        order.append(request.order[1])
    return order


def fill(*requests: Request) -> WaitingQueue:
    queue = WaitingQueue()
    for request in requests:
        queue.enter(request.new.tenant)
        queue.add(request)
    return queue


def test_with_one_tenant_and_one_class_it_is_first_come_first_served() -> None:
    assert drain(fill(make(2), make(0), make(3), make(1)), cost=100.0) == [0, 1, 2, 3]


def test_classes_come_first() -> None:
    assert drain(fill(make(0, priority=2), make(1), make(2, priority=-1), make(3, priority=10**6))) == [2, 1, 0, 3]
    assert [get_class(make(0, priority=priority)) for priority in (-(10**9), 3, 10**9)] == [-MAX_CLASS, 3, MAX_CLASS]


def test_who_waits_long_enough_overtakes_a_class() -> None:
    old = make(0, priority=1, arrival_s=0.0)
    new = make(1, priority=0, arrival_s=AGING_S + 1)
    queue = fill(old, new)
    assert queue.first(AGING_S - 1) is new
    assert queue.first(AGING_S + 2) is old


def test_age_does_not_count_among_tenants_of_one_class() -> None:
    flood = [make(sequence, tenant="flood", arrival_s=0.0) for sequence in range(4)]
    polite = make(4, tenant="polite", arrival_s=20 * AGING_S)
    queue = fill(*flood, polite)
    queue.charge("flood", 1.0)
    assert queue.first(21 * AGING_S) is polite


def test_who_waits_rises_up_to_the_first_class_and_not_beyond() -> None:
    old = [make(sequence, tenant="a", priority=5) for sequence in range(2)]
    new = [make(sequence, tenant="b", arrival_s=100 * AGING_S) for sequence in range(2, 4)]
    assert drain(fill(*old, *new), 100 * AGING_S, cost=10.0) == [0, 2, 1, 3]


def test_tenants_take_turns_however_many_one_sends() -> None:
    flood = [make(sequence, tenant="flood") for sequence in range(6)]
    polite = [make(sequence, tenant="polite") for sequence in range(6, 9)]
    assert drain(fill(*flood, *polite), cost=10.0) == [0, 6, 1, 7, 2, 8, 3, 4, 5]


def test_who_had_nobody_waiting_saves_nothing_up_and_keeps_debts() -> None:
    queue = fill(make(0, tenant="a"))
    queue.charge("a", 1000.0)
    queue.enter("b")
    queue.charge("b", 10.0)  # what runs costs, and does not count as waiting
    second = make(1, tenant="b")
    queue.add(second)
    assert queue.get_charge("b") == 1000.0
    queue.charge("b", 500.0)
    queue.remove(second)
    queue.charge("a", 10.0)
    queue.add(second)
    assert queue.get_charge("b") == 1500.0


def test_where_nobody_waits_one_is_lifted_to_the_last_that_did() -> None:
    first, second = make(0, tenant="a"), make(1, tenant="b")
    queue = fill(first)
    queue.charge("a", 100.0)
    queue.remove(first)
    queue.charge("a", 7.0)
    queue.enter("b")
    queue.add(second)
    assert queue.get_charge("b") == 107.0
    queue.remove(second)
    for tenant in "ab":
        queue.leave(tenant)
    queue.enter("c")
    assert (queue.get_charge("a"), queue.get_charge("b"), queue.get_charge("c")) == (0.0, 0.0, 0.0)


class QueueMachine(RuleBasedStateMachine):
    """Requests come and go; the next one is the least of all by its rank."""

    def __init__(self) -> None:
        super().__init__()
        self.queue = WaitingQueue()
        self.waiting: list[Request] = []
        self.now_s = 0.0
        self.num = 0

    @rule(tenant=st.sampled_from("abc"), priority=st.integers(-10, 10), tokens=st.integers(1, 9))
    def add(self, tenant: str, priority: int, tokens: int) -> None:
        request = make(self.num, tenant=tenant, priority=priority, arrival_s=self.now_s, tokens=tokens)
        self.num += 1
        self.queue.enter(tenant)
        self.queue.add(request)
        self.waiting.append(request)

    @precondition(lambda self: self.waiting)
    @rule(data=st.data(), ends=st.booleans())
    def remove(self, data: st.DataObject, ends: bool) -> None:
        request = data.draw(st.sampled_from(self.waiting))
        self.waiting.remove(request)
        self.queue.remove(request)
        if ends:
            self.queue.leave(request.new.tenant)

    @rule(tenant=st.sampled_from("abc"), tokens=st.integers(0, 50))
    def charge(self, tenant: str, tokens: int) -> None:
        self.queue.charge(tenant, tokens)

    @rule(seconds=st.floats(0, 100))
    def wait(self, seconds: float) -> None:
        self.now_s += seconds

    @invariant()
    def first_is_the_least(self) -> None:
        self.queue.check()
        assert len(self.queue) == len(self.waiting)
        assert self.queue.num_tokens == sum(request.num_tokens for request in self.waiting)
        heads = {}
        for request in sorted(self.waiting, key=lambda request: request.order[1]):
            heads.setdefault((get_class(request), request.new.tenant), request)
        expected = min(
            heads.values(),
            key=lambda request: (
                max(
                    get_class(request) - int((self.now_s - request.arrival_s) / AGING_S),
                    min(map(get_class, self.waiting)),
                ),
                self.queue.get_charge(request.new.tenant),
                request.order[1],
            ),
            default=None,
        )
        assert self.queue.first(self.now_s) is expected


QueueMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
TestQueueMachine = QueueMachine.TestCase


def test_the_last_row_is_kept_for_a_tenant_that_has_none() -> None:
    queue = WaitingQueue()
    for tenant in ("ann", "bob"):
        queue.enter(tenant)
    running = [make(number, tenant="ann") for number in range(FEW_ROWS - 1)]
    assert queue.find_barred(running[1:], FEW_ROWS) == frozenset()
    assert queue.find_barred(running, FEW_ROWS) == {"ann"}
    assert queue.find_barred(running[1:], FEW_ROWS - 1) == frozenset()  # each row counts
    for number, tenant in ((20, "ann"), (21, "bob")):
        queue.add(make(number, tenant=tenant))
    first = queue.first(0.0, {"ann"})
    assert first is not None
    assert first.new.tenant == "bob"
    assert queue.first(0.0, {"ann", "bob"}) is None


def test_no_row_is_kept_before_a_second_tenant_has_come() -> None:
    queue = WaitingQueue()
    running = [make(number, tenant="ann") for number in range(FEW_ROWS - 1)]
    queue.enter("ann")
    assert queue.find_barred(running, FEW_ROWS) == frozenset()
    queue.enter("bob")
    queue.leave("bob")
    assert queue.find_barred(running, FEW_ROWS) == {"ann"}
