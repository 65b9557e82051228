"""Which KV blocks are free, and how many holders each of the others has.

Invariant: every block is either free or held by at least one holder, never both, never neither (`check`). A free block
keeps what it holds until it is taken again. Those that are taken first are worth least: by `rank`, then those that were
released longest ago, so what was computed recently lives longest.

Runs on the engine's only thread. O(1) per block. Knows no tokens and no tensors.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Final, final

from pelton.core.step import BlockId
from pelton.errors import CapacityError

WORTHLESS: Final = 0  # nobody will look for what the block holds
LOW: Final = 1  # kept for requests of low priority
NORMAL: Final = 2
NUM_RANKS: Final = 3


class OutOfBlocks(CapacityError):
    """More blocks were wanted than are free. The pool is as it was."""


@final
class BlockPool:
    """`num_blocks` blocks of `block_size` tokens each, all free at first.

    `on_lost` hears of every block above WORTHLESS that is taken, before it is given out.
    """

    def __init__(
        self, num_blocks: int, block_size: int, on_lost: Callable[[BlockId], None] = lambda block_id: None
    ) -> None:
        assert min(num_blocks, block_size) > 0, "a pool has blocks, and blocks have room"
        self.num_blocks = num_blocks
        self.block_size = block_size
        self.on_lost = on_lost
        self._free: list[OrderedDict[BlockId, None]] = [OrderedDict() for _ in range(NUM_RANKS)]
        self._free[WORTHLESS] = OrderedDict.fromkeys(BlockId(b) for b in range(num_blocks))
        self._num_free = num_blocks
        self._num_holders = [0] * num_blocks
        self._rank = [WORTHLESS] * num_blocks

    @property
    def num_free(self) -> int:
        """Blocks that nobody holds."""
        return self._num_free

    @property
    def num_kept(self) -> int:
        """Free blocks that hold what somebody may look for."""
        return self._num_free - len(self._free[WORTHLESS])

    @property
    def num_tokens(self) -> int:
        """Tokens that the whole pool can hold."""
        return self.num_blocks * self.block_size

    def get_num_blocks_for(self, num_tokens: int) -> int:
        """The blocks that `num_tokens` tokens of one request fill, the last one perhaps partly."""
        return -(-num_tokens // self.block_size)

    def acquire(self, num_blocks: int) -> list[BlockId]:
        """Take `num_blocks`, each with one holder, or none: a failed acquire leaves the pool as it was."""
        if num_blocks > self._num_free:
            raise OutOfBlocks(f"KV pool: {num_blocks} blocks wanted, {self._num_free} of {self.num_blocks} free.")
        return [self._take() for _ in range(num_blocks)]

    def share(self, block_ids: Iterable[BlockId]) -> None:
        """Add a holder to each block. A free block comes back with what it held, if nobody has taken it since."""
        for block_id in block_ids:
            if self._num_holders[block_id] == 0:
                del self._free[self._rank[block_id]][block_id]
                self._num_free -= 1
            self._num_holders[block_id] += 1

    def release(self, block_ids: Sequence[BlockId]) -> None:
        """Take one holder from each block; those without any are free. A request's last block is reused first,
        because a prefix is worth less without its beginning."""
        for block_id in reversed(block_ids):
            assert self._num_holders[block_id] > 0, f"block {block_id} is released and nobody holds it"
            self._num_holders[block_id] -= 1
            if self._num_holders[block_id] == 0:
                self._free[self._rank[block_id]][block_id] = None
                self._num_free += 1

    def set_rank(self, block_id: BlockId, rank: int) -> None:
        """Say what the block's content is worth from now on. A free block counts as released just now."""
        if self._num_holders[block_id] == 0:
            del self._free[self._rank[block_id]][block_id]
            self._free[rank][block_id] = None
        self._rank[block_id] = rank

    def get_rank(self, block_id: BlockId) -> int:
        """What the block's content is worth."""
        return self._rank[block_id]

    def get_num_holders(self, block_id: BlockId) -> int:
        """How many hold the block; 0 if it is free."""
        return self._num_holders[block_id]

    def check(self) -> None:
        """Raise AssertionError if a block is lost, or free and held at once. O(num_blocks); run when idle."""
        for block_id, (num_holders, rank) in enumerate(zip(self._num_holders, self._rank, strict=True)):
            places = [place for place, free in enumerate(self._free) if block_id in free]
            assert num_holders >= 0, f"block {block_id} was released more often than it was taken"
            assert places == ([rank] if num_holders == 0 else []), f"block {block_id} is lost, or free and held"
        assert sum(map(len, self._free)) == self._num_free, "the count of free blocks is wrong"
        assert self._num_free <= self.num_blocks, "the free queue holds a block that does not exist"

    def _take(self) -> BlockId:
        queue = next(queue for queue in self._free if queue)
        block_id, _ = queue.popitem(last=False)
        self._num_free -= 1
        self._num_holders[block_id] = 1
        if self._rank[block_id] != WORTHLESS:
            self._rank[block_id] = WORTHLESS
            self.on_lost(block_id)
        return block_id
