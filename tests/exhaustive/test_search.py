"""Small searches to their end; that worlds with equal keys are equal; that a scheduler with a fault is found out."""

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from tests.exhaustive import world as world_module
from tests.exhaustive.key import make_key
from tests.exhaustive.run import explain
from tests.exhaustive.search import replay, search, shorten
from tests.exhaustive.setting import SETTINGS, Setting
from tests.exhaustive.world import Event, World

from pelton.engine import scheduler as scheduler_module
from pelton.engine.deadline import Deadlines
from pelton.engine.parking import Parking
from pelton.engine.request import Request
from pelton.engine.scheduler import Scheduler
from pelton.engine.waiting import WaitingQueue
from pelton.kvcache.block_cache import BlockCache
from pelton.kvcache.block_pool import BlockPool
from pelton.kvcache.prefix_tree import PrefixTree, Salt

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("name", SETTINGS)
def test_with_two_requests_everything_that_can_happen_is_right(name: str) -> None:
    full = SETTINGS[name]
    found = search(replace(full, shapes=full.shapes[-3:], num_requests=2, num_ticks=min(1, full.num_ticks), num_pins=0))
    assert explain(found) is None
    assert found.is_complete
    assert found.num_states > 80
    assert 5 < found.longest < 40


def test_with_three_requests_that_grow_everything_that_can_happen_is_right() -> None:
    found = search(SETTINGS["growth"])
    assert explain(found) is None
    assert found.is_complete
    assert found.sights["preempted 1"] > 100


def follow(world: World) -> list[tuple[World, bytes]]:
    """What comes after, event by event."""
    after = []
    for event in world.events():
        made = world.clone()
        made.apply(event)
        after.append((made, make_key(made)))
    return after


@pytest.mark.parametrize("name", ["classes", "tenants", "all at once", "thrice"])
def test_worlds_with_equal_keys_behave_the_same(name: str) -> None:
    world = World(SETTINGS[name])
    seen = {make_key(world): world}
    todo = deque([world])
    num_compared = 0
    while len(seen) < 320:
        for made, key in follow(todo.popleft()):
            if key in seen:
                num_compared += 1
                assert [each for _, each in follow(made)] == [each for _, each in follow(seen[key])]
            else:
                seen[key] = made
                todo.append(made)
    assert num_compared > 20


def take_first(running: list[Request]) -> Request | None:
    return running[0] if len(running) > 1 else None


def find_without_salt(original: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, salt, *more: original(self, Salt(), *more)


def release_too_little(original: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, block_ids: original(self, list(block_ids)[1:])


def publish_too_much(original: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, lease, tokens, num_computed: original(self, lease, tokens, min(len(tokens), num_computed + 1))


def keep_what_is_wrong(original: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, request, *, is_sound=True: original(self, request, is_sound=True)


def find_last(original: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, now_s, barred=(): max(self, key=lambda request: request.order[1], default=None)


def replace_by(result: Any) -> Callable[..., Any]:
    return lambda original: lambda *args, **more: result


FAULTS: dict[str, tuple[str, Any, str, Callable[..., Any]]] = {
    "the first gives way": ("prefix", scheduler_module, "choose_victim", lambda original: take_first),
    "one gives way more often than it may": ("growth", world_module, "MAX_PREEMPTIONS", lambda original: 0),
    "another tenant's prefix is found": ("tenants", PrefixTree, "find", find_without_salt),
    "a block is not released": ("growth", BlockPool, "release", release_too_little),
    "more is published than was computed": ("prefix", BlockCache, "publish", publish_too_much),
    "more is found than there is": ("prefix", BlockCache, "count_found", replace_by(1)),
    "what is wrong is kept": ("prefix", Scheduler, "_release", keep_what_is_wrong),
    "those that wait are not woken": ("prefix", Parking, "take_ready", replace_by(())),
    "deadlines do not pass": ("deadlines", Deadlines, "take_passed", replace_by(())),
    "the last comes first": ("growth", WaitingQueue, "first", find_last),
    "a repeated step has no blocks": (
        "repeat",
        scheduler_module,
        "extend_for_repeat",
        lambda original: lambda r, c, n: n,
    ),
    "what is released is forgotten": ("growth", Scheduler, "_release", replace_by(None)),
    "nobody starts": ("growth", Scheduler, "_admit_waiting", replace_by(None)),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, owner, attribute, make = FAULTS[fault]
    monkeypatch.setattr(owner, attribute, make(getattr(owner, attribute)))
    found = search(SETTINGS[name], max_states=3000)
    assert found.problem is not None, f"{found.num_states} states, and nothing was noticed"
    path = shorten(SETTINGS[name], found.path)
    assert replay(SETTINGS[name], path) is not None
    for index in range(len(path)):
        assert replay(SETTINGS[name], path[:index] + path[index + 1 :]) is None
    monkeypatch.undo()
    assert replay(SETTINGS[name], path) is None


class Ring(World):
    """A world in which a step undoes what the one before did."""

    def events(self) -> Any:
        yield ("turn",)

    def apply(self, event: Event) -> None:
        self.num_pins = 1 - self.num_pins

    def clone(self) -> World:
        made = Ring(self.setting)
        made.num_pins = self.num_pins
        return made


def test_a_run_that_never_ends_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.exhaustive.search.World", Ring)
    found = search(Setting(name="ring", shapes=()))
    assert found.problem == "Violation: the same state again: requests may go on for ever"
    assert found.path == [("turn",), ("turn",)]
    assert "WRONG" in found.describe()
