"""Which KV blocks are free, and how many holders each of the others has.

Invariant: every block is either in the free queue or held by at least one holder, never both, never neither
(`check`). A block leaves the free queue from the left and returns on the right, so the block that was released
longest ago is reused first and what was computed recently lives longest.

Runs on the engine's only thread. O(1) per block. Knows no tokens and no tensors.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import final

from pelton.core.step import BlockId
from pelton.errors import CapacityError


class OutOfBlocks(CapacityError):
    """More blocks were wanted than are free. The pool is as it was."""


@final
class BlockPool:
    """`num_blocks` blocks of `block_size` tokens each, all free at first."""

    def __init__(self, num_blocks: int, block_size: int) -> None:
        assert min(num_blocks, block_size) > 0, "a pool has blocks, and blocks have room"
        self.num_blocks = num_blocks
        self.block_size = block_size
        self._free: OrderedDict[BlockId, None] = OrderedDict.fromkeys(BlockId(b) for b in range(num_blocks))
        self._num_holders = [0] * num_blocks

    @property
    def num_free(self) -> int:
        """Blocks that nobody holds."""
        return len(self._free)

    @property
    def num_tokens(self) -> int:
        """Tokens that the whole pool can hold."""
        return self.num_blocks * self.block_size

    def get_num_blocks_for(self, num_tokens: int) -> int:
        """The blocks that `num_tokens` tokens of one request fill, the last one perhaps partly."""
        return -(-num_tokens // self.block_size)

    def acquire(self, num_blocks: int) -> list[BlockId]:
        """Take `num_blocks`, each with one holder, or none: a failed acquire leaves the pool as it was."""
        if num_blocks > len(self._free):
            raise OutOfBlocks(f"KV pool: {num_blocks} blocks wanted, {len(self._free)} of {self.num_blocks} free.")
        taken = [self._free.popitem(last=False)[0] for _ in range(num_blocks)]
        for block_id in taken:
            self._num_holders[block_id] = 1
        return taken

    def share(self, block_ids: Iterable[BlockId]) -> None:
        """Add a holder to each block. A free block comes back with what it held, if nobody has taken it since."""
        for block_id in block_ids:
            if self._num_holders[block_id] == 0:
                del self._free[block_id]
            self._num_holders[block_id] += 1

    def release(self, block_ids: Sequence[BlockId]) -> None:
        """Take one holder from each block; those without any are free. A request's last block is reused first,
        because a prefix is worth less without its beginning."""
        for block_id in reversed(block_ids):
            assert self._num_holders[block_id] > 0, f"block {block_id} is released and nobody holds it"
            self._num_holders[block_id] -= 1
            if self._num_holders[block_id] == 0:
                self._free[block_id] = None

    def get_num_holders(self, block_id: BlockId) -> int:
        """How many hold the block; 0 if it is free."""
        return self._num_holders[block_id]

    def check(self) -> None:
        """Raise AssertionError if a block is lost, or free and held at once. O(num_blocks); run when idle."""
        for block_id, num_holders in enumerate(self._num_holders):
            assert num_holders >= 0, f"block {block_id} was released more often than it was taken"
            assert (num_holders == 0) == (block_id in self._free), f"block {block_id} is lost, or free and held"
        assert len(self._free) <= self.num_blocks, "the free queue holds a block that does not exist"
