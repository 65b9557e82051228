"""A copy is equal, and shares nothing that can change."""

import copy
from types import MethodType

import pytest
from tests.exhaustive.clone import ATOMS, clone
from tests.exhaustive.key import describe
from tests.exhaustive.setting import SETTINGS
from tests.exhaustive.world import World

from pelton.kvcache.prefix_tree import Node

pytestmark = pytest.mark.unit


def make_busy_world() -> World:
    world = World(SETTINGS["all at once"])
    for event in (("arrive", 0), ("begin", 1 << 30), ("arrive", 3), ("end",), ("pin",), ("arrive", 2), ("begin", 1)):
        assert event in list(world.events())
        world.apply(event)
    return world


def find_parts(value: object, parts: dict[int, object]) -> dict[int, object]:
    """All objects that can change below `value`, by identity."""
    if type(value) in ATOMS or id(value) in parts:
        return parts
    parts[id(value)] = value
    if isinstance(value, dict):
        below = [*value.keys(), *value.values()]
    elif isinstance(value, list | tuple | set):
        below = list(value)
    elif isinstance(value, MethodType):
        below = [value.__self__]
    else:
        names = [name for each in type(value).__mro__ for name in getattr(each, "__slots__", ())]
        below = [getattr(value, name) for name in names] or list(getattr(value, "__dict__", {}).values())
    for each in below:
        find_parts(each, parts)
    return parts


def test_copies_share_nothing_that_can_change() -> None:
    world = make_busy_world()
    made = world.clone()
    shared = find_parts(world, {}).keys() & find_parts(made, {}).keys()
    mutable = [part for key, part in find_parts(world, {}).items() if key in shared and not isinstance(part, tuple)]
    assert mutable == []
    assert any(isinstance(part, Node) for part in find_parts(made, {}).values())


def test_copies_go_their_own_way_as_those_of_the_standard_library_do() -> None:
    world = make_busy_world()
    before, made, slow = describe(world), world.clone(), copy.deepcopy(world)
    assert describe(made) == describe(slow) == before
    for each in (made, slow):
        each.apply(("end",))
        each.apply(("begin", 1))
    assert describe(made) == describe(slow) != before
    assert describe(world) == before


def test_what_leads_to_itself_is_copied_once() -> None:
    ring: list[object] = [1]
    ring.append(ring)
    made = clone(ring, {})
    assert made is not ring
    assert made[1] is made
