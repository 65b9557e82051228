"""Counters of an engine that is replaced: Hypothesis kills it at any moment and nothing goes backwards."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pelton.core.outputs import EngineStats
from pelton.engine.stats_sum import COUNTERS, StatsSum

pytestmark = pytest.mark.unit


def test_counters_go_on_and_gauges_do_not() -> None:
    stats = StatsSum()
    stats.take(EngineStats(num_running=2, num_steps=5, step_tokens=(1, 4)))
    stats.end_engine()
    down = stats.total(is_up=False)
    assert (down.num_steps, down.num_running, down.is_up) == (5, 0, False)
    stats.take(EngineStats(num_running=1, num_steps=2, step_tokens=(0, 1, 1)))
    whole = stats.total(num_restarts=1)
    assert (whole.num_steps, whole.num_running, whole.is_up, whole.num_restarts) == (7, 1, True, 1)
    assert whole.step_tokens == (1, 5, 1)


def test_every_counter_is_summed() -> None:
    gauges = {"num_running", "num_waiting", "num_waiting_tokens", "num_blocks", "num_free_blocks", "num_restarts"}
    numbers = {name for name in EngineStats.__struct_fields__ if name.startswith("num_")}
    assert numbers - gauges == set(COUNTERS), "a figure of the engine is neither a gauge nor a counter"


@given(st.lists(st.one_of(st.none(), st.integers(0, 9)), max_size=40))
def test_nothing_goes_backwards_and_nothing_is_lost(events: list[int | None]) -> None:
    stats, in_this_engine, whole = StatsSum(), 0, 0
    for event in events:
        if event is None:
            stats.end_engine()
            in_this_engine = 0
        else:
            in_this_engine += event
            whole += event
            stats.take(EngineStats(num_generation_tokens=in_this_engine, step_tokens=(in_this_engine,)))
        total = stats.total()
        assert total.num_generation_tokens == whole
        assert sum(total.step_tokens) == whole
