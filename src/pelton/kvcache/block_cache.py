"""The blocks of one request, and what they have in common with those of others.

A lease is all that a request holds of the cache: first blocks that it shares with others, then its own. Its own full
blocks are promised to the tree when it gets them and computed when it says so; on release the tree keeps what is
computed. Whoever finds a prefix that is promised had better wait for it than compute it again.

Runs on the engine's only thread. O(1) per block.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import final

from pelton.core.outputs import CacheMiss
from pelton.core.step import BlockCopy, BlockId
from pelton.kvcache.block_pool import NORMAL, BlockPool
from pelton.kvcache.named_prefix import NamedPrefixes
from pelton.kvcache.prefix_tree import TOKEN_BYTES, Match, Node, PrefixTree, Salt, Tokens


@final
class Lease:
    """What one request holds. Only the cache that made it changes it."""

    __slots__ = ("block_ids", "nodes", "num_computed_blocks", "num_shared", "rank")

    def __init__(self, block_ids: tuple[BlockId, ...], nodes: list[Node], rank: int) -> None:
        self.block_ids = block_ids
        self.nodes = nodes  # the root, then one for each full block that is promised or computed
        self.num_shared = len(nodes) - 1  # leading blocks that others had computed
        self.num_computed_blocks = self.num_shared  # that the tree knows of
        self.rank = rank


@final
class BlockCache:
    """Gives blocks of `pool` to requests. Without `is_enabled` nothing is shared or kept."""

    def __init__(self, pool: BlockPool, *, is_enabled: bool = True) -> None:
        self.pool = pool
        self.tree = PrefixTree(pool)
        self.names = NamedPrefixes(self.tree)
        self.is_enabled = is_enabled

    def find(self, salt: Salt, tokens: Tokens[int], rank: int = NORMAL) -> Match:
        """What is there of all tokens but the last, which must be computed whatever is known.

        What a request of a lower rank has promised is not worth waiting for: it may be made to wait itself.
        """
        match = self.tree.find(salt, tokens, len(tokens) - 1 if self.is_enabled else 0)
        if match.promised is not None and match.promised.rank < rank:
            return match._replace(promised=None)
        return match

    def count_found(self, match: Match) -> int:
        """Tokens that need not be computed by a request that takes `match`."""
        return (len(match.nodes) - 1) * self.pool.block_size + match.num_partial

    def explain(self, match: Match) -> CacheMiss:
        """Where `match` ends, and why there."""
        if not self.is_enabled:
            return CacheMiss("off", 0)
        is_hit = len(match.rest) == match.num_partial * TOKEN_BYTES and match.num_partial < self.pool.block_size
        return CacheMiss("hit" if is_hit else self.tree.explain(match), self.count_found(match))

    def count_needed(self, match: Match, num_blocks: int) -> int:
        """Free blocks that a lease of `num_blocks` takes away."""
        shared = [node.block_id for node in match.nodes[1:]]
        num_revived = sum(block_id is not None and not self.pool.get_num_holders(block_id) for block_id in shared)
        return max(0, num_blocks - len(shared)) + num_revived

    def take(self, match: Match, num_blocks: int, rank: int = NORMAL) -> tuple[Lease, BlockCopy | None]:
        """Hold what was found and as many further blocks, or raise OutOfBlocks and change nothing.

        The copy, if there is one, must be made before the next step computes anything; then `match.num_partial` tokens
        of the first own block are computed too.
        """
        if self.count_needed(match, num_blocks) > self.pool.num_free:
            self.pool.acquire(self.pool.num_free + 1)  # raises
        shared = [node.block_id for node in match.nodes[1:] if node.block_id is not None]
        self.pool.share(shared)
        for node in match.nodes[1:]:
            self.tree.raise_rank(node, rank)
            self.names.follow(node)
        source = match.source.block_id if match.source is not None else None
        own = self.pool.acquire(max(0, num_blocks - len(shared)))
        lease = Lease((*shared, *own), list(match.nodes), rank)
        if source is None or not own or source == own[0]:
            return lease, None
        return lease, BlockCopy(source, own[0])

    def extend(self, lease: Lease, num_blocks: int) -> None:
        """Hold `num_blocks` more, or raise OutOfBlocks and change nothing."""
        lease.block_ids = (*lease.block_ids, *self.pool.acquire(num_blocks))

    def promise(self, lease: Lease, tokens: Tokens[int]) -> None:
        """Tell the tree which blocks will be computed, so that others can wait for them."""
        if self.is_enabled:
            self._add(lease, tokens, len(tokens) // self.pool.block_size)

    def publish(self, lease: Lease, tokens: Tokens[int], num_computed: int) -> None:
        """The first `num_computed` of `tokens` are in the lease's blocks; what is full may be read by others."""
        num_full = num_computed // self.pool.block_size
        if not self.is_enabled or num_full <= lease.num_computed_blocks:
            return
        self._add(lease, tokens, num_full)
        while lease.num_computed_blocks < min(num_full, len(lease.nodes) - 1):
            node = lease.nodes[lease.num_computed_blocks + 1]
            if node.is_gone:
                return
            if node.block_id == lease.block_ids[lease.num_computed_blocks]:
                self.tree.set_computed(node, lease.rank)
                self.names.follow(node)
            elif not node.is_computed:
                return  # somebody else computes the same; what is behind it has to wait for that
            lease.num_computed_blocks += 1

    def release(self, lease: Lease, *, is_sound: bool = True) -> None:
        """Give everything back. What is not sound, because its numbers may be wrong, is kept for nobody."""
        first = lease.num_computed_blocks if is_sound else lease.num_shared
        for index in range(first, len(lease.nodes) - 1):
            node = lease.nodes[index + 1]
            if node.block_id == lease.block_ids[index] and (not node.is_computed or not is_sound):
                self.tree.drop(node)  # with all that is behind it
        if not is_sound:
            self.names.forget_gone()
        self.pool.release(lease.block_ids)
        lease.block_ids, lease.nodes = (), []

    def _add(self, lease: Lease, tokens: Tokens[int], num_full: int) -> None:
        data = memoryview(tokens).cast("B")
        num_bytes = self.pool.block_size * tokens.itemsize
        for index in range(len(lease.nodes) - 1, num_full):
            parent = lease.nodes[-1]
            if parent.is_gone:
                return
            key = bytes(data[index * num_bytes : (index + 1) * num_bytes])
            lease.nodes.append(self.tree.add(parent, key, lease.block_ids[index], lease.rank))

    def check(self, leases: Iterable[Lease] = ()) -> None:
        """Raise AssertionError if pool, tree and `leases`, all there are, contradict each other. O(num_blocks)."""
        self.pool.check()
        self.tree.check()
        holders = Counter(block_id for lease in leases for block_id in lease.block_ids)
        holders.update(self.names.get_held_blocks())
        for number in range(self.pool.num_blocks):
            block_id = BlockId(number)
            num_holders = self.pool.get_num_holders(block_id)
            assert num_holders == holders[block_id], f"block {block_id} has {holders[block_id]} holders"
