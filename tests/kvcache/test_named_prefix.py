"""What a name keeps, for how long, how much of the pool it may take, and when it has to give way."""

import logging
from array import array

import pytest
from tests.kvcache.simulated_memory import ALICE, SimulatedMemory

from pelton.core.outputs import PrefixInfo
from pelton.core.step import BlockId
from pelton.errors import CapacityError, RateLimited, RequestError
from pelton.kvcache.block_pool import BlockPool
from pelton.kvcache.named_prefix import NamedPrefixes
from pelton.kvcache.prefix_tree import PrefixTree, Salt

pytestmark = pytest.mark.unit

BOB, CAROL = Salt("bob"), Salt("carol")


def text(num_tokens: int, seed: int = 0) -> tuple[int, ...]:
    return tuple(seed * 1000 + position for position in range(num_tokens))


def pin(memory: SimulatedMemory, name: str, num_tokens: int, ttl_s: float | None = None, seed: int = 0) -> PrefixInfo:
    info = memory.cache.names.pin(name, ALICE, text(num_tokens, seed), ttl_s, 0.0)
    memory.check()
    return info


def crowd_out(memory: SimulatedMemory) -> None:
    """Use every block that is free."""
    memory.pool.release(memory.pool.acquire(memory.pool.num_free))


def test_named_prefix_outlives_what_is_computed_after_it() -> None:
    memory = SimulatedMemory(num_blocks=32)
    memory.run("first", text(15))
    assert pin(memory, "system", 15) == PrefixInfo(name="system", num_tokens=12, num_cached_tokens=12, ttl_left_s=None)
    crowd_out(memory)
    assert memory.run("second", text(15)).num_cached == 12
    assert memory.cache.names.release("system", "alice")
    assert not memory.cache.names.release("system", "alice")
    crowd_out(memory)
    assert memory.run("third", text(15)).num_cached == 0


def test_name_takes_blocks_as_they_are_computed() -> None:
    memory = SimulatedMemory(num_blocks=32)
    assert pin(memory, "system", 12).num_cached_tokens == 0
    request = memory.make("first", text(20))
    assert request.admit()
    request.compute(9)
    (info,) = memory.cache.names.list_of("alice", 0.0)
    assert (info.num_tokens, info.num_cached_tokens) == (12, 8)
    request.compute()
    request.release()
    memory.check()
    crowd_out(memory)
    assert memory.run("second", text(20)).num_cached == 12


def test_name_ends_by_itself() -> None:
    memory = SimulatedMemory(num_blocks=32)
    memory.run("first", text(12))
    pin(memory, "short", 4, ttl_s=1.0)
    pin(memory, "long", 8, ttl_s=5.0)
    names = memory.cache.names
    assert [(info.name, info.ttl_left_s) for info in names.list_of("alice", 0.5)] == [("long", 4.5), ("short", 0.5)]
    assert [info.name for info in names.list_of("alice", 1.0)] == ["long"]
    names.expire(5.0)
    assert names.list_of("alice", 5.0) == []
    memory.check()
    assert memory.pool.num_free == 32


def test_names_belong_to_their_tenant() -> None:
    memory = SimulatedMemory(num_blocks=32)
    pin(memory, "system", 8)
    memory.cache.names.pin("system", BOB, text(4), None, 0.0)
    assert [info.num_tokens for info in memory.cache.names.list_of("bob", 0.0)] == [4]
    assert not memory.cache.names.release("system", "carol")
    assert memory.cache.names.release("system", "bob")
    assert [info.num_tokens for info in memory.cache.names.list_of("alice", 0.0)] == [8]


def test_same_name_again_stands_for_something_else() -> None:
    memory = SimulatedMemory(num_blocks=32)
    memory.run("first", text(12))
    pin(memory, "system", 12)
    pin(memory, "system", 8, seed=1)
    assert memory.pool.num_free == 32
    assert [info.num_cached_tokens for info in memory.cache.names.list_of("alice", 0.0)] == [0]


def test_prefix_that_fills_no_block_is_refused() -> None:
    with pytest.raises(RequestError, match=r"^prefix 'a': 3 tokens, expected at least 4"):
        pin(SimulatedMemory(), "a", 3)


def test_tenant_may_keep_a_quarter_and_all_together_half_of_the_pool() -> None:
    memory = SimulatedMemory(num_blocks=32)
    names = memory.cache.names
    pin(memory, "a", 24)
    with pytest.raises(RateLimited, match=r"^prefix 'b': 12 tokens beside 24 .* at most 32 in all"):
        pin(memory, "b", 12)
    pin(memory, "a", 32)  # in place of what it was
    names.pin("a", BOB, text(32), None, 0.0)
    with pytest.raises(CapacityError, match="others keep"):
        names.pin("a", CAROL, text(4), None, 0.0)
    names.release("a", "bob")
    names.pin("a", CAROL, text(4), None, 0.0)
    memory.check()


def test_refused_prefix_leaves_the_name_as_it_was() -> None:
    memory = SimulatedMemory(num_blocks=32)
    pin(memory, "a", 8)
    with pytest.raises(RateLimited):
        pin(memory, "a", 36)
    assert [info.num_tokens for info in memory.cache.names.list_of("alice", 0.0)] == [8]


def test_names_give_way_to_a_request_that_has_no_other_way(caplog: pytest.LogCaptureFixture) -> None:
    memory = SimulatedMemory(num_blocks=32)
    memory.run("a", text(16))
    memory.run("b", text(16, seed=1))
    pin(memory, "empty", 4, seed=2, ttl_s=0.5)
    pin(memory, "soon", 12, ttl_s=1.0)
    pin(memory, "later", 16, seed=1)
    with caplog.at_level(logging.WARNING):
        assert memory.cache.names.give_way(28)
    assert memory.pool.num_free == 28
    assert [record.args for record in caplog.records] == [("soon",)]
    assert not memory.cache.names.give_way(33)
    memory.check()
    assert [info.num_cached_tokens for info in memory.cache.names.list_of("alice", 0.0)] == [0, 0, 0]
    memory.run("again", text(16))  # finds the first blocks: the name takes them up again
    assert [info.num_cached_tokens for info in memory.cache.names.list_of("alice", 0.0)] == [0, 0, 12]


def test_name_follows_only_what_is_in_the_tree() -> None:
    memory = SimulatedMemory(num_blocks=32)
    pin(memory, "system", 8)
    request = memory.make("first", text(12))
    assert request.admit()
    request.compute()
    assert memory.cache.names.list_of("alice", 0.0)[0].num_cached_tokens == 8
    request.release(is_sound=False)
    memory.check()
    assert memory.cache.names.list_of("alice", 0.0)[0].num_cached_tokens == 0
    memory.run("second", text(12))
    assert memory.cache.names.list_of("alice", 0.0)[0].num_cached_tokens == 8


def test_two_names_may_want_the_same_block() -> None:
    memory = SimulatedMemory(num_blocks=32)
    pin(memory, "a", 8)
    pin(memory, "b", 8)
    memory.cache.names.release("a", "alice")
    memory.run("first", text(12))
    assert memory.cache.names.list_of("alice", 0.0)[0].num_cached_tokens == 8
    memory.check()


def test_root_that_comes_back_is_followed() -> None:
    tree = PrefixTree(BlockPool(16, 4))
    names = NamedPrefixes(tree)
    names.pin("a", ALICE, text(8), None, 0.0)
    for _ in range(2):
        (block_id,) = tree.pool.acquire(1)
        node = tree.add(tree.get_root(ALICE), array("i", text(4)).tobytes(), block_id, is_computed=True)
        names.follow(node)
        tree.pool.release([block_id])
        assert list(names.get_held_blocks()) == [block_id]
        tree.drop(node)
        names.forget_gone()
        assert list(names.get_held_blocks()) == []
    assert tree.pool.get_num_holders(BlockId(0)) == 0
