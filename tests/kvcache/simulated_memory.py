"""Requests on a block cache whose memory is simulated: every slot says which tokens its keys and values depend on.

So a wrong hit, a block written while others read it, a copy made too late or a stale block is seen at once.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from pelton.core.outputs import CacheMiss
from pelton.core.step import BlockCopy, BlockId, RequestId
from pelton.kvcache.block_cache import BlockCache, Lease
from pelton.kvcache.block_pool import NORMAL, WORTHLESS, BlockPool
from pelton.kvcache.prefix_tree import Salt

Content = tuple[Salt, tuple[int, ...]]  # everything that the keys and values of a token depend on

ALICE = Salt("alice")


class SimulatedRequest:
    """A request that computes its tokens when it is told to."""

    def __init__(self, memory: SimulatedMemory, name: str, prompt: Sequence[int], salt: Salt, rank: int) -> None:
        self.memory = memory
        self.name = RequestId(name)
        self.tokens = array("i", prompt)
        self.salt = salt
        self.rank = rank
        self.lease: Lease | None = None
        self.miss: CacheMiss | None = None
        self.num_cached = 0
        self.num_computed = 0

    @property
    def block_ids(self) -> tuple[BlockId, ...]:
        return () if self.lease is None else self.lease.block_ids

    def get_contents(self, num_tokens: int) -> list[Content]:
        """What the first slots must hold."""
        return [(self.salt, tuple(self.tokens[: end + 1])) for end in range(num_tokens)]

    def read(self, num_tokens: int) -> list[Content | None]:
        """What the first slots do hold."""
        size = self.memory.block_size
        return [self.memory.slots[self.block_ids[i // size]][i % size] for i in range(num_tokens)]

    def wait(self) -> bool:
        """Wait for what somebody is about to compute, if that is worth it."""
        promised = self.memory.cache.find(self.salt, self.tokens, self.rank).promised
        if promised is not None:
            promised.waiting.append(self.name)
        return promised is not None

    def admit(self, num_reserved: int = 0, num_more: int = 0) -> bool:
        """Take blocks, if so many stay free. Copies are made when the step begins."""
        cache, pool = self.memory.cache, self.memory.pool
        match = cache.find(self.salt, self.tokens, self.rank)
        num_blocks = pool.get_num_blocks_for(len(self.tokens) + num_more)
        if cache.count_needed(match, num_blocks) + num_reserved > pool.num_free:
            return False
        self.miss = cache.explain(match)
        self.lease, copy = cache.take(match, num_blocks, self.rank)
        cache.promise(self.lease, self.tokens)
        self.num_cached = (len(match.nodes) - 1) * pool.block_size + match.num_partial
        assert self.num_cached < len(self.tokens), "a token must be left to compute"
        if copy is not None:
            self.memory.copies.append(copy)
        self.num_computed = self.num_cached
        return True

    def compute(self, num_tokens: int = 1 << 30) -> None:
        """Write the next tokens' keys and values. All copies of the step have been made before."""
        assert self.lease is not None, "a request that holds nothing computes"
        self.memory.make_copies()
        end = min(len(self.tokens), self.num_computed + num_tokens)
        for position in range(self.num_computed, end):
            block_id = self.block_ids[position // self.memory.block_size]
            assert self.memory.pool.get_rank(block_id) == WORTHLESS, "a block is written that others may read"
            content = (self.salt, tuple(self.tokens[: position + 1]))
            self.memory.slots[block_id][position % self.memory.block_size] = content
        self.num_computed = end
        assert self.read(end) == self.get_contents(end)
        self.memory.cache.publish(self.lease, self.tokens, self.num_computed)

    def append(self, token_id: int) -> bool:
        """Choose a token, if there is room for it."""
        assert self.lease is not None, "a request that holds nothing goes on"
        pool = self.memory.pool
        num_missing = pool.get_num_blocks_for(len(self.tokens) + 1) - len(self.block_ids)
        if num_missing > pool.num_free:
            return False
        if num_missing > 0:
            self.memory.cache.extend(self.lease, num_missing)
        self.tokens.append(token_id)
        return True

    def release(self, *, is_sound: bool = True) -> None:
        """Give everything back. The step under way, with its copies, has run."""
        assert self.lease is not None, "a request that holds nothing gives it back"
        self.memory.make_copies()
        self.memory.cache.release(self.lease, is_sound=is_sound)
        self.lease = None
        self.num_computed = 0


class SimulatedMemory:
    """A pool, its cache and its slots."""

    def __init__(self, num_blocks: int = 16, block_size: int = 4, *, is_enabled: bool = True) -> None:
        self.block_size = block_size
        self.pool = BlockPool(num_blocks, block_size)
        self.cache = BlockCache(self.pool, is_enabled=is_enabled)
        self.slots: list[list[Content | None]] = [[None] * block_size for _ in range(num_blocks)]
        self.copies: list[BlockCopy] = []
        self.requests: dict[str, SimulatedRequest] = {}

    def make(self, name: str, prompt: Sequence[int], salt: Salt = ALICE, rank: int = NORMAL) -> SimulatedRequest:
        """A request that holds nothing yet."""
        request = self.requests[name] = SimulatedRequest(self, name, prompt, salt, rank)
        return request

    def run(self, name: str, prompt: Sequence[int], salt: Salt = ALICE, rank: int = NORMAL) -> SimulatedRequest:
        """A request that is admitted, computed and gone."""
        request = self.make(name, prompt, salt, rank)
        assert request.admit()
        request.compute()
        self.check()
        request.release()
        self.check()
        return request

    def make_copies(self) -> None:
        """What a step does first, in this order."""
        for copy in self.copies:
            self.slots[copy.target] = list(self.slots[copy.source])
        self.copies = []

    def find_naively(self, salt: Salt, tokens: Sequence[int]) -> int:
        """How many whole blocks of `tokens` are kept, found by looking into all of them."""
        ranks = [self.pool.get_rank(BlockId(number)) for number in range(self.pool.num_blocks)]
        kept = {slots[-1] for slots, rank in zip(self.slots, ranks, strict=True) if rank != WORTHLESS}
        num_blocks, size = 0, self.block_size
        while (num_blocks + 1) * size < len(tokens) and (salt, tuple(tokens[: (num_blocks + 1) * size])) in kept:
            num_blocks += 1
        return num_blocks

    def check(self) -> None:
        """Everything against everything."""
        self.cache.check(request.lease for request in self.requests.values() if request.lease is not None)
