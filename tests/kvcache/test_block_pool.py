"""The pool against a model of itself: counts per block, and the order of the free queue."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from pelton.core.step import BlockId
from pelton.kvcache.block_pool import BlockPool, OutOfBlocks

pytestmark = pytest.mark.unit


def test_acquire_is_all_or_nothing() -> None:
    pool = BlockPool(4, 16)
    held = pool.acquire(3)
    with pytest.raises(OutOfBlocks, match=r"2 blocks wanted, 1 of 4 free"):
        pool.acquire(2)
    assert pool.num_free == 1
    assert pool.num_tokens == 64
    pool.release(held)
    assert pool.num_free == 4
    pool.check()


def test_block_released_longest_ago_is_reused_first() -> None:
    pool = BlockPool(3, 16)
    first, second, third = pool.acquire(3)
    pool.release([second])
    pool.release([third, first])
    assert pool.acquire(3) == [second, first, third]


def test_shared_block_is_free_after_its_last_holder() -> None:
    pool = BlockPool(2, 16)
    held = pool.acquire(1)
    pool.share(held)
    pool.release(held)
    assert pool.get_num_holders(held[0]) == 1
    pool.release(held)
    assert pool.num_free == 2
    pool.share(held)
    assert pool.num_free == 1
    assert pool.acquire(1) != held


def test_release_of_a_free_block_is_noticed() -> None:
    pool = BlockPool(2, 16)
    with pytest.raises(AssertionError, match="nobody holds it"):
        pool.release([BlockId(0)])


@pytest.mark.parametrize(("num_tokens", "num_blocks"), [(0, 0), (1, 1), (16, 1), (17, 2)])
def test_blocks_for_tokens(num_tokens: int, num_blocks: int) -> None:
    assert BlockPool(2, 16).get_num_blocks_for(num_tokens) == num_blocks


def test_check_finds_a_lost_block() -> None:
    pool = BlockPool(2, 16)
    pool._free[0].popitem()
    with pytest.raises(AssertionError, match="lost"):
        pool.check()


class PoolMachine(RuleBasedStateMachine):
    """Acquire, share and release in any order; the model is a list of leases."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = BlockPool(12, 4)
        self.leases: list[list[BlockId]] = []

    @rule(num_blocks=st.integers(0, 14))
    def acquire(self, num_blocks: int) -> None:
        free = self.pool.num_free
        try:
            taken = self.pool.acquire(num_blocks)
        except OutOfBlocks:
            assert num_blocks > free
            return
        assert len(set(taken)) == num_blocks
        self.leases.append(taken)

    @precondition(lambda self: self.leases)
    @rule(data=st.data())
    def share(self, data: st.DataObject) -> None:
        lease = list(data.draw(st.sampled_from(self.leases)))
        self.pool.share(lease)
        self.leases.append(lease)

    @precondition(lambda self: self.leases)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        index = data.draw(st.integers(0, len(self.leases) - 1))
        self.pool.release(self.leases.pop(index))

    @invariant()
    def counts_are_those_of_the_leases(self) -> None:
        self.pool.check()
        for block_id in range(self.pool.num_blocks):
            expected = sum(lease.count(BlockId(block_id)) for lease in self.leases)
            assert self.pool.get_num_holders(BlockId(block_id)) == expected


PoolMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestPool = PoolMachine.TestCase
