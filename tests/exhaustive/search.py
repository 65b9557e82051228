"""Every state that a world can come to, depth first, each looked at once.

Safety: `World.apply` and `World.check` hold in each. Liveness: the graph of states has no cycle, and in a state in
which nothing can happen any more nobody waits. So whatever happens, in any order, every request ends: no fairness
needs to be assumed. Memory: 200 bytes for each state.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tests.exhaustive.key import make_key
from tests.exhaustive.setting import Setting
from tests.exhaustive.world import Event, Violation, World

from pelton.errors import EngineError

ON_PATH = -1
FAULTS = (Violation, AssertionError, EngineError, LookupError, ValueError, AttributeError)


@dataclass
class Found:
    """What a search has seen. `problem` is None if nothing is wrong; `path` leads to it."""

    setting: Setting
    num_states: int = 0
    num_transitions: int = 0
    longest: int = 0  # steps of the longest run from the beginning to an end
    seconds: float = 0.0
    is_complete: bool = False
    problem: str | None = None
    path: list[Event] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)  # of events
    sights: Counter[str] = field(default_factory=Counter)

    def describe(self) -> str:
        """A line."""
        what = "all of them" if self.is_complete else "not all" if self.problem is None else f"WRONG: {self.problem}"
        return (
            f"{self.setting.name:12} {self.num_states:>9,} states, {what}; {self.num_transitions:,} transitions, "
            f"no run longer than {self.longest} steps, {self.seconds:.0f} s"
        )


@dataclass(slots=True)
class Frame:
    """A state on the path, and what can still happen in it."""

    key: bytes
    world: World
    events: Iterator[Event]
    event: Event | None = None
    longest: int = 0  # steps that may follow


def search(setting: Setting, max_states: int = 1 << 62) -> Found:
    """Look at all states, or at `max_states` of them."""
    found = Found(setting)
    started_s = time.perf_counter()
    world = World(setting)
    seen: dict[bytes, int] = {}  # the longest run that may follow
    path = [enter(world, make_key(world), seen)]
    try:
        while path and len(seen) < max_states:
            frame = path[-1]
            frame.event = next(frame.events, None)
            if frame.event is None:
                seen[frame.key] = frame.longest
                path.pop()
                if path:
                    note(path[-1], frame.longest)
                else:
                    found.longest, found.is_complete = frame.longest, True
                continue
            found.num_transitions += 1
            found.kinds[frame.event[0]] += 1
            world = frame.world.clone()
            world.apply(frame.event)
            key = make_key(world)
            known = seen.get(key)
            if known is None:
                world.check()
                found.sights.update(world.sights())
                path.append(enter(world, key, seen))
            elif known == ON_PATH:
                raise Violation("the same state again: requests may go on for ever")
            else:
                note(frame, known)
    except FAULTS as error:
        found.problem = f"{type(error).__name__}: {error}"
        found.path = [frame.event for frame in path if frame.event is not None]
    found.num_states = len(seen)
    found.seconds = time.perf_counter() - started_s
    return found


def enter(world: World, key: bytes, seen: dict[bytes, int]) -> Frame:
    """A state for the first time."""
    seen[key] = ON_PATH
    events = list(world.events())
    if not events and world.live:
        raise Violation("nothing can happen, and requests wait")
    return Frame(key, world, iter(events))


def note(frame: Frame, longest: int) -> None:
    """A state that comes after the one of `frame` may be followed by so many steps."""
    assert frame.event is not None
    is_step = frame.event[0] in ("step", "bad", "begin")
    frame.longest = max(frame.longest, longest + is_step)


def replay(setting: Setting, path: Sequence[Event]) -> str | None:
    """What goes wrong on this path, or None. What cannot happen is left out."""
    world = World(setting)
    keys = set()
    try:
        for event in path:
            if event in list(world.events()):
                keys.add(make_key(world))
                world.apply(event)
                world.check()
                if make_key(world) in keys:
                    return "the same state again"
    except FAULTS as error:
        return f"{type(error).__name__}: {error}"
    return None


def shorten(setting: Setting, path: Sequence[Event]) -> list[Event]:
    """A path that goes wrong too, and does not if any event of it is left out."""
    left = list(path)
    index = 0
    while index < len(left):
        shorter = left[:index] + left[index + 1 :]
        if replay(setting, shorter) is None:
            index += 1
        else:
            left, index = shorter, 0
    return left
