"""Room is taken whole or not at all, given back once, and shared among tenants."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pelton.errors import CapacityError, EngineError, InternalError, RateLimited, RequestError
from pelton.server.admission import (
    BUSY,
    BYTES_PER_TOKEN,
    DRAINING,
    FULL,
    NO_LOW_PRIORITY,
    NORMAL,
    Admission,
    Held,
    Room,
)

pytestmark = pytest.mark.unit


@contextmanager
def holding(admission: Admission, count: int = 1, tenant: str = "", *, priority: int = 0) -> Iterator[Held]:
    """Come in, ask for `count` answers, and go."""
    held = admission.enter(tenant)
    try:
        held.ask(count, priority)
        yield held
    finally:
        held.give_back()


def test_answers_and_tokens_are_held_until_they_are_given_back() -> None:
    admission = Admission(4, 100)
    with holding(admission, 2) as held:
        held.settle(60)
        held.settle(30)
        assert (admission.num_live, admission.num_tokens) == (2, 30)
        with holding(admission, 2) as other:
            other.settle(70)
        assert (admission.num_live, admission.num_tokens) == (2, 30)
    assert admission.is_empty()
    held.give_back()
    assert admission.is_empty()
    with pytest.raises(InternalError, match="by a request that has ended"):
        held.settle(1)
    assert admission.is_empty()


def test_what_is_too_much_is_refused_and_nothing_changes() -> None:
    admission = Admission(4, 100, estimate_wait_s=lambda: 10.0)
    with holding(admission, 3) as held:
        held.settle(90)
        with pytest.raises(CapacityError, match="4 requests run or wait, at most 4") as caught, holding(admission, 2):
            pass
        assert 8.0 <= caught.value.retry_after_s <= 12.0
        with holding(admission) as other:
            with pytest.raises(CapacityError, match="requests with 90 tokens run or wait, at most 100"):
                other.settle(11)
            other.settle(10)
        admission.enter().give_back()
    with (
        pytest.raises(RequestError, match="n: 5 answers asked for, this server takes at most 4"),
        holding(admission, 5),
    ):
        pass
    assert admission.is_empty()


def test_a_body_is_worth_something_before_it_is_read() -> None:
    admission = Admission(4, 100)
    with holding(admission) as held:
        held.settle(90)
        with pytest.raises(CapacityError, match="tokens"):
            admission.enter(num_bytes=BYTES_PER_TOKEN * 11)
        other = admission.enter(num_bytes=BYTES_PER_TOKEN * 5)
        other.expect(BYTES_PER_TOKEN * 3)
        assert admission.num_tokens == 95
        with pytest.raises(CapacityError, match="tokens"):
            other.expect(BYTES_PER_TOKEN * 11)
        assert (admission.num_live, admission.num_tokens) == (2, 95)
        other.settle(2)
        assert admission.num_tokens == 92
        other.give_back()
    assert admission.is_empty()


def test_a_request_that_is_larger_than_all_room_is_taken_alone() -> None:
    """Whether it fits into the model is for others to say."""
    admission = Admission(4, 100)
    held = admission.enter(num_bytes=BYTES_PER_TOKEN * 400)
    held.settle(500)
    with pytest.raises(CapacityError), holding(admission) as other:
        other.settle(1)
    held.settle(600)
    held.give_back()
    assert admission.is_empty()


def test_a_tenant_has_its_share_and_others_have_room() -> None:
    admission = Admission(8, 100, tenant_share=0.5)
    with holding(admission, 4, "greedy") as held:
        held.settle(50)
        assert admission.find_room("greedy") == Room(4, 0, 50, 0)
        assert admission.find_room("polite") == Room(4, 4, 50, 50)
        with pytest.raises(RateLimited, match="You have 4 requests"):
            admission.enter("greedy")
        with holding(admission, 1, "polite") as polite:
            polite.settle(40)
    with holding(admission, 1, "greedy") as held:
        held.settle(45)
        with holding(admission, 1, "greedy") as more, pytest.raises(RateLimited, match="requests with 45 tokens"):
            more.settle(6)
    assert admission.is_empty()


def test_levels_rise_at_once_and_fall_late() -> None:
    levels: list[int] = []
    admission = Admission(20, on_level=levels.append)
    admission.move("", 10, 0)
    admission.move("", 5, 0)
    with pytest.raises(CapacityError, match="no requests of low priority"), holding(admission, priority=1):
        pass
    with holding(admission):
        pass
    admission.move("", 5, 0)
    assert levels == [BUSY, NO_LOW_PRIORITY, FULL]
    admission.move("", -1, 0)
    assert admission.level == FULL
    admission.move("", -2, 0)
    assert admission.level == NO_LOW_PRIORITY
    admission.move("", -17, 0)
    assert admission.level == NORMAL
    admission.is_draining = True
    assert admission.level == DRAINING
    with pytest.raises(CapacityError, match="shutting down"):
        admission.enter()


def test_deadlines_that_cannot_be_met_are_refused_now() -> None:
    admission = Admission(4, estimate_wait_s=lambda: 3.0)
    admission.check_deadline(0.0, 100.0)
    admission.check_deadline(103.5, 100.0)
    with pytest.raises(CapacityError, match=r"in about 3\.0 s, after its deadline"):
        admission.check_deadline(102.5, 100.0)


@settings(max_examples=100, deadline=None)
@given(
    events=st.lists(
        st.tuples(st.integers(0, 5), st.sampled_from("abc"), st.integers(0, 60), st.integers(0, 1)), max_size=40
    )
)
def test_nothing_is_lost_and_no_limit_is_passed(events: list[tuple[int, str, int, int]]) -> None:
    admission = Admission(6, 100, tenant_share=0.6)
    open_: list[tuple[object, str, int, int]] = []
    for count, tenant, num_tokens, which in events:
        if count == 0:
            if open_:
                context, *_ = open_.pop(which % len(open_))
                context.__exit__(None, None, None)  # type: ignore[attr-defined]
        else:
            context = holding(admission, count, tenant)
            try:
                held = context.__enter__()
            except EngineError:
                continue
            try:
                held.settle(num_tokens)
            except EngineError:
                context.__exit__(None, None, None)
                continue
            open_.append((context, tenant, count, num_tokens))
        assert admission.num_live == sum(count for _, _, count, _ in open_) <= 6
        assert admission.num_tokens == sum(num_tokens for *_, num_tokens in open_)
        assert len(open_) < 2 or admission.num_tokens <= 100
    for context, *_ in open_:
        context.__exit__(None, None, None)  # type: ignore[attr-defined]
    assert admission.is_empty()
