"""The order of legs, who is frozen when, and which blocks are dropped; engines and machine are made up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import cycle
from typing import Any

import pytest
from tests.bench.blocks import calibration_of

from pelton.bench.comparison import Block, Comparison, Work, find_reason_to_drop
from pelton.bench.cpu_time import CpuTime
from pelton.errors import TransferError

pytestmark = pytest.mark.unit
WORK = Work(batch=8, prompt=128, output=64)


class FakeEngine:
    """Writes down what happens to it; takes `seconds` for a prefill and ten times as long to decode."""

    def __init__(self, name: str, events: list[str], seconds: float = 1.0) -> None:
        self.name = name
        self.events = events
        self.seconds = seconds
        self.requests: list[dict[str, Any]] = []
        self.answer: dict[str, Any] | None = None

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        self.events.append(f"ask {self.name}")
        self.requests.append(request)
        return self.answer or {"prefill_s": self.seconds, "decode_s": 10 * self.seconds}

    def freeze(self) -> None:
        self.events.append(f"freeze {self.name}")

    def thaw(self) -> None:
        self.events.append(f"thaw {self.name}")


def make_comparison(
    events: list[str], *, steal: float = 0.0, on_leg: Callable[[], None] = lambda: None
) -> tuple[Comparison, FakeEngine, FakeEngine]:
    ours, theirs = FakeEngine("A", events), FakeEngine("B", events, seconds=2.0)
    looks = cycle([CpuTime(total=0), CpuTime(total=1000, steal=round(1000 * steal))])

    def calibrate() -> Any:
        events.append("calibrate")
        return calibration_of()

    return (
        Comparison(ours, theirs, calibrate=calibrate, read_cpu_time=lambda: next(looks), on_leg=on_leg),
        ours,
        theirs,
    )


def test_blocks_take_turns_in_who_begins_with_the_machine_measured_in_between() -> None:
    events: list[str] = []
    comparison, ours, theirs = make_comparison(events)
    comparison.run_block(WORK, number=2)
    block = comparison.run_block(WORK, number=3)
    assert [event for event in events if event.startswith(("ask", "cal"))] == [
        "calibrate", "ask A", "calibrate", "ask B", "calibrate",
        "calibrate", "ask B", "calibrate", "ask A", "calibrate",
    ]  # fmt: skip
    assert [request["seed"] for request in ours.requests] == [request["seed"] for request in theirs.requests] == [3, 4]
    assert ours.requests[0] == {
        "batch": 8, "prompt": 128, "output": 64, "depth": 0, "first_id": 1000, "last_id": 20000, "seed": 3,
    }  # fmt: skip
    assert (block.dropped, block.steal_share, len(block.calibrations)) == (None, 0, 3)
    assert block.get_seconds("ours", "prefill") == 1
    assert block.get_seconds("theirs", "decode") == 20


def test_only_the_engine_whose_turn_it_is_runs() -> None:
    events: list[str] = []
    comparison, _, _ = make_comparison(events)
    comparison.run_block(WORK, number=0)
    awake: set[str] = set()
    for event in events:
        what, _, who = event.partition(" ")
        if what == "thaw":
            awake.add(who)
        elif what == "freeze":
            awake.discard(who)
        else:
            assert awake == ({who} if who else set()), event


def test_no_two_blocks_have_the_same_prompts() -> None:
    seeds: set[int] = set()
    for number in range(4):
        comparison, ours, _ = make_comparison([])
        comparison.run_block(WORK, number)
        seeds |= {2 * request["seed"] + run for request in ours.requests for run in (0, 1)}
    assert len(seeds) == 8


def test_both_are_warmed_up_on_the_shapes_of_the_work() -> None:
    legs: list[None] = []
    comparison, ours, theirs = make_comparison([], on_leg=lambda: legs.append(None))
    comparison.warm_up(WORK)
    assert [request["batch"] for request in ours.requests + theirs.requests] == [8, 8]
    assert all(request["output"] == 4 and request["seed"] == 0 for request in ours.requests + theirs.requests)
    assert len(legs) == 2


def test_an_engine_that_fails_is_frozen_all_the_same() -> None:
    events: list[str] = []
    comparison, ours, _ = make_comparison(events)
    ours.answer = {"prefill_s": 1.0}
    with pytest.raises(TransferError, match=r"ours: answered .* expected prefill_s and decode_s"):
        comparison.run_block(WORK, 0)
    assert events[-1] == "freeze A"


def test_a_decode_that_is_lost_in_noise_drops_its_block() -> None:
    comparison, ours, _ = make_comparison([])
    ours.answer = {"prefill_s": 1.0, "decode_s": -0.1}
    reason = comparison.run_block(WORK, 0).dropped
    assert reason == "decode of ours was lost in the noise of prefill; decode more tokens"


def test_stolen_time_drops_a_block() -> None:
    comparison, _, _ = make_comparison([], steal=0.02)
    assert comparison.run_block(WORK, 0).dropped == "2.0% of the CPU time was stolen"


@pytest.mark.parametrize(
    ("speeds", "states", "steal", "reason"),
    [
        ([50, 54, 50], ["far"] * 3, 0.0, None),
        ([50, 57, 50], ["near"] * 3, 0.01, None),
        ([50, 50, 34], ["far"] * 3, 0.0, "read bandwidth was between 34.0 and 50.0 GB/s"),
        ([50, 50, 50], ["far", "near", "far"], 0.0, "the barrier went from far to near"),
        ([50, 50], ["disturbed"] * 2, 0.0, "something else ran: threads that met at a barrier were not running"),
        ([50, 50, 50], ["far"] * 3, 0.011, "1.1% of the CPU time was stolen"),
    ],
)
def test_why_a_block_is_dropped(speeds: list[float], states: list[Any], steal: float, reason: str | None) -> None:
    calibrations = [calibration_of(speed, s) for speed, s in zip(speeds, states, strict=True)]
    assert find_reason_to_drop(calibrations, steal) == reason


def test_other_processes_drop_a_block() -> None:
    busy = replace(calibration_of(), other_share=0.4)
    reason = find_reason_to_drop([calibration_of(), busy], 0.0)
    assert reason == "other processes took 40% of the CPU time of a calibration"


def test_a_block_can_be_written_down() -> None:
    comparison, _, _ = make_comparison([])
    block = comparison.run_block(WORK, 0)
    assert isinstance(block, Block)
    row = block.to_json()
    assert row["work"]["batch"] == 8
    assert [leg["side"] for leg in row["legs"]] == ["ours", "theirs"]
    assert row["calibrations"][0]["state"] == "far"
