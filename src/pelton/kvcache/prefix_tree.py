"""Which computed prefixes the cache holds: a tree with one node for each full block, one root for each salt.

A node's path from its root is the tokens before its block and in it, compared themselves and not by a hash of them, so
two different prefixes can never be taken for one. A node is *promised* while the request that brought it computes its
block, and *computed* from then on; only computed blocks are read by others, promised ones can be waited for.

Invariants (`check`): a block belongs to one node at most; what is above a computed node is computed; a block that
nobody holds is in the tree if and only if its rank in the pool says so. When a node goes, all below it go.

Runs on the engine's only thread. O(1) per block; memory about 600 bytes per block.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Iterator
from hashlib import blake2b
from itertools import takewhile
from operator import eq
from typing import Final, NamedTuple, final

from pelton.core.step import BlockId, RequestId
from pelton.kvcache.block_pool import LOW, NORMAL, WORTHLESS, BlockPool

Tokens = array  # of C ints
TOKEN_BYTES: Final = array("i").itemsize
MAX_REMEMBERED: Final = 1 << 16  # digests of evicted prefixes, 100 bytes each


@final
class Node:
    """A full block, its tokens, and what follows it."""

    __slots__ = ("block_id", "children", "digest", "first", "is_computed", "is_gone", "key", "parent", "waiting")

    def __init__(self, parent: Node | None, key: bytes, block_id: BlockId | None, digest: bytes) -> None:
        self.parent = parent
        self.key = key  # the block's tokens; a root's is its salt
        self.block_id = block_id  # None: a root
        self.digest = digest  # of all tokens from the root, without the salt
        self.children: dict[bytes, Node] = {}
        self.first: dict[bytes, Node] = {}  # by its first token the newest child that begins with it
        self.is_computed = block_id is None
        self.is_gone = False
        self.waiting: list[RequestId] = []  # requests that wait until it is computed


class Match(NamedTuple):
    """What the tree holds of a request's tokens."""

    nodes: list[Node]  # the root, then full blocks that are computed
    promised: Node | None  # the last block in common that somebody computes just now
    source: Node | None  # a computed block that begins like the request's next one
    num_partial: int  # tokens that they have in common
    why: str  # why no more was found: end, new, evicted, other_salt, diverged


@final
class PrefixTree:
    """The prefixes that `pool`'s blocks hold."""

    def __init__(self, pool: BlockPool) -> None:
        self.pool = pool
        self._block_bytes = pool.block_size * TOKEN_BYTES
        self._roots: dict[str, Node] = {}
        self._nodes: dict[BlockId, Node] = {}
        self._digests: dict[bytes, int] = {}  # of computed nodes, with how many salts hold each
        self._evicted: OrderedDict[bytes, None] = OrderedDict()
        self._woken: list[RequestId] = []
        pool.on_lost = self._evict

    @property
    def num_nodes(self) -> int:
        """Blocks in the tree, promised ones included."""
        return len(self._nodes)

    def find(self, salt: str, tokens: Tokens[int], limit: int) -> Match:
        """The longest prefix of tokens[:limit] under `salt`."""
        node = self._roots.get(salt) or Node(None, salt.encode(), None, b"")
        nodes, promised = [node], None
        num_blocks = limit // self.pool.block_size
        data = memoryview(tokens).cast("B")
        for index in range(num_blocks):
            child = node.children.get(bytes(data[index * self._block_bytes : (index + 1) * self._block_bytes]))
            if child is None:
                break
            node = child
            if not node.is_computed:
                promised = node
            elif promised is None:
                nodes.append(node)
        first = (len(nodes) - 1) * self._block_bytes
        rest = bytes(data[first : min(first + self._block_bytes, limit * TOKEN_BYTES)])
        source, num_partial = self._find_partial(nodes[-1], rest)
        return Match(nodes, promised, source, num_partial, self._explain(nodes, rest, num_partial))

    def add(self, parent: Node, key: bytes, block_id: BlockId, *, is_computed: bool) -> Node:
        """Put a block behind `parent`, or find the one that is there: then `block_id` stays outside the tree."""
        assert not parent.is_gone, "a block is put behind one that is gone"
        if parent.block_id is None:
            parent = self._roots.setdefault(parent.key.decode(), parent)
        existing = parent.children.get(key)
        if existing is not None:
            return existing
        node = Node(parent, key, block_id, blake2b(key, digest_size=16, key=parent.digest).digest())
        parent.children[key] = node
        self._nodes[block_id] = node
        if is_computed:
            self.set_computed(node)
        return node

    def set_computed(self, node: Node, rank: int = NORMAL) -> None:
        """The node's block now holds what its tokens give, and may be read by anybody with the same salt."""
        assert node.block_id is not None, "a root is no block"
        if not node.is_computed:
            assert node.parent is not None, "a block is behind something"
            assert node.parent.is_computed, "computed before what is before it"
            node.is_computed = True
            node.parent.first[node.key[:TOKEN_BYTES]] = node
            self._digests[node.digest] = self._digests.get(node.digest, 0) + 1
            self._wake(node)
        # A block that important requests use stays important: otherwise it could go before those behind it.
        self.pool.set_rank(node.block_id, max(rank, self.pool.get_rank(node.block_id)))

    def drop(self, node: Node) -> None:
        """Take a node and all below it out of the tree. Their blocks stay with their holders."""
        if node.is_gone or node.parent is None:
            return
        parent = node.parent
        del parent.children[node.key]
        if parent.first.get(node.key[:TOKEN_BYTES]) is node:
            del parent.first[node.key[:TOKEN_BYTES]]
        if parent.block_id is None and not parent.children:
            del self._roots[parent.key.decode()]
        for each in self._walk(node):
            each.is_gone = True
            assert each.block_id is not None, "a root is below nothing"
            del self._nodes[each.block_id]
            if each.is_computed:
                self._forget(each)
            self._wake(each)
            if self.pool.get_rank(each.block_id) != WORTHLESS:
                self.pool.set_rank(each.block_id, WORTHLESS)

    def take_woken(self) -> list[RequestId]:
        """Requests whose promised block is computed, or will not be, since the last call."""
        woken, self._woken = self._woken, []
        return woken

    def clear(self) -> None:
        """Forget everything. Blocks stay with their holders."""
        for root in list(self._roots.values()):
            for node in list(root.children.values()):
                self.drop(node)

    def check(self) -> None:
        """Raise AssertionError if nodes, blocks and ranks contradict each other. O(num_nodes); run when idle."""
        num_found = 0
        for salt, root in self._roots.items():
            assert root.key == salt.encode(), "a root of another salt"
            assert root.children, "a root without children"
            for node in self._walk(root):
                if node is root:
                    continue
                num_found += 1
                assert node.block_id is not None, "a root below a root"
                assert self._nodes[node.block_id] is node, "a block of two nodes"
                assert not node.is_gone, "a node is gone, and found"
                assert len(node.key) == self._block_bytes, "a node that is not of one block"
                assert node.parent is not None, "a node without a parent"
                assert node.parent.children[node.key] is node, "a child of two parents"
                assert node.parent.is_computed or not node.is_computed, "computed before what is before it"
                assert node.is_computed or self.pool.get_num_holders(node.block_id), "promised, and nobody computes it"
                rank = self.pool.get_rank(node.block_id)
                assert (rank != WORTHLESS) == node.is_computed, "a block's rank contradicts its node"
        assert num_found == len(self._nodes), "a node is not below a root"
        for block_id in range(self.pool.num_blocks):
            if self.pool.get_rank(BlockId(block_id)) != WORTHLESS:
                assert BlockId(block_id) in self._nodes, "a block is kept that nobody can find"

    def _evict(self, block_id: BlockId) -> None:
        """The pool gives the block to somebody else."""
        node = self._nodes[block_id]
        self.drop(node)
        self._evicted[node.digest] = None
        self._evicted.move_to_end(node.digest)
        while len(self._evicted) > MAX_REMEMBERED:
            self._evicted.popitem(last=False)

    def _forget(self, node: Node) -> None:
        left = self._digests[node.digest] - 1
        if left:
            self._digests[node.digest] = left
        else:
            del self._digests[node.digest]

    def _wake(self, node: Node) -> None:
        self._woken += node.waiting
        node.waiting = []

    def _find_partial(self, node: Node, rest: bytes) -> tuple[Node | None, int]:
        child = node.first.get(rest[:TOKEN_BYTES])
        if child is None or not rest:
            return None, 0
        ours, theirs = memoryview(rest).cast("i"), memoryview(child.key).cast("i")
        return child, sum(1 for _ in takewhile(bool, map(eq, ours, theirs)))

    def _explain(self, nodes: list[Node], rest: bytes, num_partial: int) -> str:
        if len(rest) < self._block_bytes:
            return "end"
        digest = blake2b(rest, digest_size=16, key=nodes[-1].digest).digest()
        if digest in self._digests:
            return "other_salt"
        if digest in self._evicted:
            return "evicted"
        return "diverged" if num_partial or nodes[-1].children else "new"

    def _walk(self, top: Node) -> Iterator[Node]:
        stack = [top]
        while stack:
            node = stack.pop()
            stack += node.children.values()
            yield node


def rank_of(priority: int) -> int:
    """What blocks of a request with this priority are worth; a larger number is less important."""
    return LOW if priority > 0 else NORMAL
