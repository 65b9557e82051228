"""Leases: what they share, promise and leave behind."""

from array import array

import pytest

from pelton.core.step import BlockCopy
from pelton.kvcache.block_cache import BlockCache, Lease
from pelton.kvcache.block_pool import BlockPool, OutOfBlocks

pytestmark = pytest.mark.unit
BLOCK = 4


def tokens(*values: int) -> "array[int]":
    return array("i", values)


def make_cache(num_blocks: int = 8, *, is_enabled: bool = True) -> BlockCache:
    return BlockCache(BlockPool(num_blocks, BLOCK), is_enabled=is_enabled)


def compute(cache: BlockCache, *values: int) -> tuple[Lease, BlockCopy | None]:
    """A request that holds and has computed all its tokens."""
    known = tokens(*values)
    lease, copy = cache.take(cache.find("", known), -(-len(values) // BLOCK))
    cache.promise(lease, known)
    cache.check()
    cache.publish(lease, known, len(values))
    cache.check()
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
    match = cache.find("", tokens(0, 1, 2, 3, 4, 5))
    assert cache.count_needed(match, 2) == 2
    second, copy = cache.take(match, 2)
    assert (copy, second.block_ids) == (None, first.block_ids or second.block_ids)


def test_without_room_nothing_changes() -> None:
    cache = make_cache(3)
    first, _ = compute(cache, *range(8))
    with pytest.raises(OutOfBlocks):
        cache.take(cache.find("", tokens(*range(17))), 5)
    cache.check()
    assert cache.pool.num_free == 1
    with pytest.raises(OutOfBlocks):
        cache.extend(first, 2)
    cache.extend(first, 1)
    assert len(first.block_ids) == 3


def test_two_that_compute_the_same_keep_it_once() -> None:
    cache = make_cache()
    match = cache.find("", tokens(*range(9)))
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
    cache.check()
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
