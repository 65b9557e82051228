"""Leases: what they share, promise and leave behind."""

from array import array
from collections.abc import Sequence

import pytest
from tests.kvcache.simulated_memory import ALICE, SimulatedMemory, SimulatedRequest

from pelton.core.step import BlockCopy
from pelton.kvcache.block_cache import BlockCache, Lease
from pelton.kvcache.block_pool import LOW, BlockPool, OutOfBlocks
from pelton.kvcache.prefix_tree import Salt

pytestmark = pytest.mark.unit
BLOCK = 4


def tokens(*values: int) -> "array[int]":
    return array("i", values)


def make_cache(num_blocks: int = 8, *, is_enabled: bool = True) -> BlockCache:
    return BlockCache(BlockPool(num_blocks, BLOCK), is_enabled=is_enabled)


def compute(cache: BlockCache, *values: int) -> tuple[Lease, BlockCopy | None]:
    """A request that holds and has computed all its tokens."""
    known = tokens(*values)
    lease, copy = cache.take(cache.find(Salt(), known), -(-len(values) // BLOCK))
    cache.promise(lease, known)
    cache.publish(lease, known, len(values))
    cache.tree.check()
    return lease, copy


def test_a_second_request_shares_full_blocks_and_copies_the_next() -> None:
    cache = make_cache()
    first, _ = compute(cache, *range(10))
    second, copy = compute(cache, *range(7), 99, 98)
    assert second.block_ids[:1] == first.block_ids[:1]
    assert copy == BlockCopy(first.block_ids[1], second.block_ids[1])
    cache.release(first)
    cache.release(second)
    cache.check()
    assert (cache.pool.num_free, cache.pool.num_kept) == (8, 3)


def test_a_block_that_becomes_its_own_copy_needs_none() -> None:
    cache = make_cache(2)
    first, _ = compute(cache, *range(8))
    cache.release(first)
    match = cache.find(Salt(), tokens(0, 1, 2, 3, 4, 5))
    assert cache.count_needed(match, 2) == 2
    second, copy = cache.take(match, 2)
    assert (copy, second.block_ids) == (None, first.block_ids or second.block_ids)


def test_without_room_nothing_changes() -> None:
    cache = make_cache(3)
    first, _ = compute(cache, *range(8))
    with pytest.raises(OutOfBlocks):
        cache.take(cache.find(Salt(), tokens(*range(17))), 5)
    cache.check([first])
    assert cache.pool.num_free == 1
    with pytest.raises(OutOfBlocks):
        cache.extend(first, 2)
    cache.extend(first, 1)
    assert len(first.block_ids) == 3


def test_two_that_compute_the_same_keep_it_once() -> None:
    cache = make_cache()
    match = cache.find(Salt(), tokens(*range(9)))
    leases = [cache.take(match, 3)[0] for _ in range(2)]
    for lease in leases:
        cache.promise(lease, tokens(*range(9)))
    cache.publish(leases[1], tokens(*range(9)), 9)
    assert leases[1].num_computed_blocks == 0  # the first has promised it
    cache.publish(leases[0], tokens(*range(9)), 9)
    cache.publish(leases[1], tokens(*range(9)), 9)
    assert leases[1].num_computed_blocks == 2
    for lease in leases:
        cache.release(lease)
    cache.check()
    assert (cache.tree.num_nodes, cache.pool.num_kept) == (2, 2)


def test_what_is_not_sound_is_forgotten_with_all_behind_it() -> None:
    cache = make_cache()
    first, _ = compute(cache, *range(8))
    second, _ = compute(cache, *range(8), *range(8))
    third, _ = compute(cache, *range(8), *range(8), 1, 1, 1, 1)
    cache.release(second, is_sound=False)
    cache.check([first, third])
    assert cache.tree.num_nodes == 2
    cache.publish(third, tokens(*range(8), *range(8), 1, 1, 1, 1, 2, 2, 2, 2), 20)
    cache.release(third)
    cache.release(first)
    cache.check()
    assert cache.pool.num_free == 8


def test_switched_off_it_shares_and_keeps_nothing() -> None:
    cache = make_cache(is_enabled=False)
    first, _ = compute(cache, *range(8))
    second, copy = compute(cache, *range(8))
    assert copy is None
    assert not set(first.block_ids) & set(second.block_ids)
    cache.release(first)
    assert cache.pool.num_kept == 0


BOB, ALICE_X = Salt("bob"), Salt("alice", "x")


def text(num_tokens: int, seed: int = 0) -> list[int]:
    return [seed * 1000 + position for position in range(num_tokens)]


def get_miss(request: SimulatedRequest) -> tuple[str, int]:
    assert request.miss is not None
    return request.miss.reason, request.miss.position


@pytest.mark.parametrize("num_tokens", [1, 3, 4, 5, 7, 8, 9, 11, 12, 13])
def test_same_prompt_again_computes_at_least_its_last_token(num_tokens: int) -> None:
    memory = SimulatedMemory()
    memory.run("first", text(num_tokens))
    expected = num_tokens - 1 if num_tokens % BLOCK == 0 else num_tokens // BLOCK * BLOCK
    assert memory.run("second", text(num_tokens)).num_cached == expected


@pytest.mark.parametrize("num_common", range(4, 9))
def test_part_of_a_block_is_copied_from_the_child_that_has_most(num_common: int) -> None:
    memory = SimulatedMemory()
    memory.run("first", text(12))
    memory.run("other", [*text(4), 4, 77, 78, 79])
    assert memory.run("second", [*text(num_common), *text(6, seed=1)]).num_cached == num_common


def test_tenants_and_salts_find_nothing_of_each_other() -> None:
    memory = SimulatedMemory()
    memory.run("first", text(12))
    for number, salt in enumerate([BOB, ALICE_X, Salt("", "alice"), Salt("", ""), Salt("a", "lice")]):
        request = memory.make(str(number), text(12), salt)
        assert request.admit()
        assert request.num_cached == 0
        request.release()


def test_blocks_of_a_running_request_are_found_as_soon_as_they_are_full() -> None:
    memory = SimulatedMemory()
    first, second = memory.make("first", text(12)), memory.make("second", text(10))
    assert first.admit()
    first.compute(7)
    assert second.admit()
    assert second.num_cached == BLOCK
    assert second.block_ids[0] == first.block_ids[0]
    second.compute()
    first.compute()
    memory.check()


def test_outputs_are_kept_too() -> None:
    memory = SimulatedMemory()
    first = memory.make("first", text(3))
    assert first.admit()
    first.compute()
    for token_id in (7, 8, 9, 10, 11):
        assert first.append(token_id)
        first.compute()
    first.release()
    assert memory.run("turn", [*text(3), 7, 8, 9, 10, 11, 1]).num_cached == 8


def test_request_behind_a_block_of_which_it_has_its_own_is_found_too() -> None:
    memory = SimulatedMemory()
    memory.run("first", text(8))
    second = memory.make("second", text(8))  # its last block is computed again, for its last token
    assert second.admit()
    second.compute()
    for token_id in (1, 2, 3, 4):
        assert second.append(token_id)
        second.compute()
    second.release()
    memory.check()
    assert memory.run("third", [*text(8), 1, 2, 3, 4, 5]).num_cached == 12


def test_request_whose_beginning_went_keeps_nothing_more() -> None:
    memory = SimulatedMemory(num_blocks=8)
    memory.run("first", text(4))
    second = memory.make("second", text(4))
    assert second.admit()
    second.compute()
    assert memory.make("third", text(24, seed=1)).admit()  # takes the block of which second has its own
    for token_id in (1, 2, 3, 4):
        assert second.append(token_id)
        second.compute()
    memory.check()
    second.release()
    memory.requests["third"].release()
    memory.check()
    assert memory.pool.num_free == 8


def test_block_that_an_important_request_uses_is_kept_like_its_own() -> None:
    memory = SimulatedMemory(num_blocks=6)
    memory.run("batch", text(8), rank=LOW)
    memory.run("usual", text(13))
    memory.run("other", text(8, seed=1), rank=LOW)
    memory.pool.release(memory.pool.acquire(3))
    assert memory.find_naively(ALICE, text(13)) == 3


def test_leaves_are_taken_before_their_parents() -> None:
    memory = SimulatedMemory(num_blocks=4)
    memory.run("first", text(16))
    for num_left in (3, 2, 1, 0):
        memory.pool.acquire(1)
        assert memory.find_naively(ALICE, text(17)) == num_left


@pytest.mark.parametrize("is_sound", [True, False])
def test_wait_ends_with_the_request_that_is_waited_for(is_sound: bool) -> None:
    memory = SimulatedMemory()
    first, second = memory.make("first", text(12)), memory.make("second", text(12))
    assert first.admit()
    assert second.wait()
    first.compute(5)
    assert memory.cache.tree.take_woken() == []
    first.release(is_sound=is_sound)
    assert memory.cache.tree.take_woken() == ["second"]
    assert second.admit()
    assert second.num_cached == (BLOCK if is_sound else 0)


@pytest.mark.parametrize(
    ("prompt", "rank", "salt"),
    [
        (text(4), LOW, ALICE),  # its only block has the last token, which is computed anyway
        (text(20), LOW + 1, ALICE),  # more urgent than the request that it would wait for
        (text(20), LOW, BOB),
        (text(20, seed=1), LOW, ALICE),
    ],
)
def test_not_worth_waiting(prompt: Sequence[int], rank: int, salt: Salt) -> None:
    memory = SimulatedMemory()
    assert memory.make("first", text(20), rank=LOW).admit()
    assert not memory.make("second", prompt, salt, rank).wait()
    assert memory.make("third", text(20), rank=LOW).wait()


def test_reasons_of_misses() -> None:
    memory = SimulatedMemory(num_blocks=16)
    assert get_miss(memory.run("a", text(8))) == ("new", 0)
    assert get_miss(memory.run("b", text(8))) == ("hit", 7)
    assert get_miss(memory.run("c", [*text(8), 1])) == ("hit", 8)
    assert get_miss(memory.run("d", [*text(8), 1, 2, 3])) == ("tail", 8)
    assert get_miss(memory.run("e", [*text(6), 1, 2, 3, 4, 5])) == ("diverged", 6)
    assert get_miss(memory.run("f", [*text(8), 1, 2, 3, 4, 5])) == ("new", 8)
    assert get_miss(memory.run("g", [*text(8), 6, 2, 3, 4, 5])) == ("diverged", 8)
    assert get_miss(memory.run("h", text(9), ALICE_X)) == ("salt", 0)
    assert get_miss(memory.run("i", text(9), BOB)) == ("new", 0)
    memory.pool.release(memory.pool.acquire(16))
    assert get_miss(memory.run("j", text(9), Salt("alice", "y"))) == ("new", 0)
    assert get_miss(memory.run("k", text(9))) == ("evicted", 0)
    off = SimulatedMemory(is_enabled=False)
    off.run("a", text(8))
    assert get_miss(off.run("b", text(8))) == ("off", 0)


def test_evictions_of_other_tenants_are_not_told() -> None:
    memory = SimulatedMemory()
    memory.run("a", text(9))
    memory.pool.release(memory.pool.acquire(16))
    assert get_miss(memory.run("b", text(9), BOB)) == ("new", 0)


def test_copy_into_the_block_that_is_its_source_is_none() -> None:
    memory = SimulatedMemory(num_blocks=1)
    memory.run("first", text(4))
    second = memory.make("second", [0, 1, 9])
    assert second.admit()
    assert (second.num_cached, memory.copies) == (2, [])
    second.compute()


def test_promise_that_two_made_goes_with_whoever_made_it_first() -> None:
    cache, known = make_cache(), tokens(*range(9))
    match = cache.find(Salt(), known)
    first, second = (cache.take(match, 3)[0] for _ in range(2))
    cache.promise(first, known)
    cache.promise(second, known)
    cache.release(first)
    cache.publish(second, known, 9)
    assert cache.tree.num_nodes == 0
    cache.check([second])
    cache.release(second)
    cache.check()


def test_of_two_that_promised_the_same_the_second_takes_nothing_back() -> None:
    cache, known = make_cache(), tokens(*range(9))
    match = cache.find(Salt(), known)
    first, second = (cache.take(match, 3)[0] for _ in range(2))
    cache.promise(first, known)
    cache.promise(second, known)
    cache.release(second)
    cache.publish(first, known, 9)
    assert cache.tree.num_nodes == 2
