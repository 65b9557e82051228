"""No answer is ever nowhere or in two places, whatever order things happen in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pelton.observability.ledger import DEFAULT_TENANT, MAX_TENANTS, OTHER_TENANTS, Ledger

pytestmark = pytest.mark.unit


def test_an_answer_is_received_and_ends_once() -> None:
    ledger = Ledger()
    ledger.receive(3, "a")
    ledger.finish("stop", "a")
    ledger.refuse(1, "reserve", 503, "a")
    ledger.check()
    assert (ledger.num_received, ledger.num_live) == (3, 1)
    assert ledger.finished["stop"] == 1
    assert ledger.refused["reserve", 503] == 1


@pytest.mark.parametrize("lose", ["live", "finished", "tenant", "twice"])
def test_a_lost_answer_is_noticed(lose: str) -> None:
    ledger = Ledger()
    ledger.receive(2, "a")
    ledger.finish("stop", "a")
    if lose == "live":
        ledger.num_live -= 1
    elif lose == "finished":
        ledger.finished["stop"] -= 1
    elif lose == "tenant":
        ledger.of("a").num_live -= 1
    else:
        ledger.finish("stop", "a")
        ledger.finish("abort", "a")
    with pytest.raises(AssertionError):
        ledger.check()


@pytest.mark.parametrize(("num_computing", "split"), [(0, (0, 2)), (1, (1, 1)), (2, (2, 0)), (5, (2, 0)), (-1, (0, 2))])
def test_live_answers_run_or_wait(num_computing: int, split: tuple[int, int]) -> None:
    ledger = Ledger()
    ledger.receive(2)
    assert ledger.split_live(num_computing) == split


@given(st.lists(st.integers(0, 200), max_size=300))
def test_labels_of_tenants_are_bounded_and_nothing_is_lost(numbers: list[int]) -> None:
    ledger = Ledger()
    for number in numbers:
        ledger.receive(1, f"tenant-{number}")
        ledger.finish("stop", f"tenant-{number}")
    ledger.check()
    assert len(ledger.tenants) <= MAX_TENANTS + 1
    seen = list(dict.fromkeys(numbers))
    assert list(ledger.tenants)[:MAX_TENANTS] == [f"tenant-{number}" for number in seen[:MAX_TENANTS]]
    others = sum(number not in seen[:MAX_TENANTS] for number in numbers)
    assert (OTHER_TENANTS in ledger.tenants) == (others > 0)
    if others:
        assert ledger.tenants[OTHER_TENANTS].num_finished == others


def test_nobody_has_a_name() -> None:
    ledger = Ledger()
    ledger.receive(1)
    assert list(ledger.tenants) == [DEFAULT_TENANT]
