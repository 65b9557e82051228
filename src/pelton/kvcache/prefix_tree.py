"""Which computed prefixes the cache holds: a tree with one node for each full block, one root for each tenant's salt.

A node's path from its root is the tokens before its block and in it, compared themselves and not by a hash of them, so
two different prefixes can never be taken for one. A node is *promised* while the request that brought it computes its
block, and *computed* from then on; only computed blocks are read by others, promised ones can be waited for.

Invariants (`check`): a block belongs to one node at most; what is above a computed node is computed; a block that
nobody holds is in the tree if and only if its rank in the pool says so. When a node goes, all below it go.

Runs on the engine's only thread. O(1) per block, O(log siblings) where one is shared in part; 700 bytes per block.
"""

from __future__ import annotations

import secrets
from array import array
from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Iterator
from hashlib import blake2b
from typing import Final, NamedTuple, final

from pelton.core.outputs import MissReason
from pelton.core.step import BlockId, RequestId
from pelton.kvcache.block_pool import LOW, NORMAL, WORTHLESS, BlockPool

Tokens = array  # of C ints
TOKEN_BYTES: Final = array("i").itemsize
MAX_REMEMBERED: Final = 1 << 16  # digests of evicted prefixes, 100 bytes each


class Salt(NamedTuple):
    """Who shares with whom: only requests that agree in all of it."""

    tenant: str = ""
    cache_salt: str = ""


@final
class Node:
    """A full block, its tokens, and what follows it. A root has no block and no tokens."""

    __slots__ = (
        "block_id", "children", "digest", "is_computed", "is_gone", "key", "parent", "rank", "salt", "sorted_keys",
        "waiting",
    )  # fmt: skip

    def __init__(self, parent: Node | None, key: bytes, block_id: BlockId | None, digest: bytes, salt: Salt) -> None:
        self.parent = parent
        self.key = key  # the block's tokens
        self.block_id = block_id  # None: a root
        self.digest = digest  # of the tenant and all tokens from the root, without the salt
        self.salt = salt
        self.rank = NORMAL  # of the request that promised it
        self.children: dict[bytes, Node] = {}
        self.sorted_keys: list[bytes] = []  # of computed children: those that begin alike are neighbours
        self.is_computed = block_id is None
        self.is_gone = False
        self.waiting: list[RequestId] = []  # requests that wait until it is computed


class Match(NamedTuple):
    """What the tree holds of a request's tokens."""

    nodes: list[Node]  # the root, then full blocks that are computed
    promised: Node | None  # the last block in common that somebody computes just now
    source: Node | None  # a computed block that begins like the request's next one
    num_partial: int  # tokens that they have in common
    rest: bytes  # the tokens of the request's next block, as far as they were looked for


@final
class PrefixTree:
    """The prefixes that `pool`'s blocks hold."""

    def __init__(self, pool: BlockPool) -> None:
        self.pool = pool
        self.block_bytes = pool.block_size * TOKEN_BYTES
        self._roots: dict[Salt, Node] = {}
        self._nodes: dict[BlockId, Node] = {}
        self._digests: dict[bytes, int] = {}  # of computed nodes, with how many salts of the tenant hold each
        self._evicted: OrderedDict[tuple[bytes, str], None] = OrderedDict()  # digests and salts
        self._secret = secrets.token_bytes(16)  # nobody outside can make two digests equal
        self._woken: list[RequestId] = []
        pool.on_lost = self._evict

    @property
    def num_nodes(self) -> int:
        """Blocks in the tree, promised ones included."""
        return len(self._nodes)

    def find(self, salt: Salt, tokens: Tokens[int], limit: int) -> Match:
        """The longest prefix of tokens[:limit] under `salt`."""
        node = self.get_root(salt)
        nodes, promised = [node], None
        num_blocks = limit // self.pool.block_size
        data = memoryview(tokens).cast("B")
        for index in range(num_blocks):
            child = node.children.get(bytes(data[index * self.block_bytes : (index + 1) * self.block_bytes]))
            if child is None:
                break
            node = child
            if node.is_computed:
                nodes.append(node)
            else:
                promised = node  # and so are all below it
        first = (len(nodes) - 1) * self.block_bytes
        rest = bytes(data[first : min(first + self.block_bytes, limit * TOKEN_BYTES)])
        source, num_partial = self._find_partial(nodes[-1], rest)
        return Match(nodes, promised, source, num_partial, rest)

    def get_root(self, salt: Salt) -> Node:
        """The root of a salt. It is in the tree as long as something is below it."""
        root = self._roots.get(salt)
        if root is None:
            digest = blake2b(salt.tenant.encode(), digest_size=16, key=self._secret).digest()
            root = Node(None, b"", None, digest, salt)
        return root

    def explain(self, match: Match) -> MissReason:
        """Why `match` is not longer. Says nothing of other tenants."""
        if len(match.rest) < self.block_bytes:
            return "tail"
        last = match.nodes[-1]
        digest = blake2b(match.rest, digest_size=16, key=last.digest).digest()
        if (digest, last.salt.cache_salt) in self._evicted:
            return "evicted"
        if digest in self._digests:
            return "salt"
        return "diverged" if match.num_partial or (last.children and last.parent is not None) else "new"

    def add(
        self, parent: Node, key: bytes, block_id: BlockId, rank: int = NORMAL, *, is_computed: bool = False
    ) -> Node:
        """Put a block behind `parent`, or find the one that is there: then `block_id` stays outside the tree."""
        assert not parent.is_gone, "a block is put behind one that is gone"
        if parent.block_id is None:
            parent = self._roots.setdefault(parent.salt, parent)
        existing = parent.children.get(key)
        if existing is not None:
            return existing
        digest = blake2b(key, digest_size=16, key=parent.digest).digest()
        node = parent.children[key] = Node(parent, key, block_id, digest, parent.salt)
        node.rank = rank
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
            insort(node.parent.sorted_keys, node.key)
            self._digests[node.digest] = self._digests.get(node.digest, 0) + 1
            self._wake(node)
        self.raise_rank(node, rank)

    def raise_rank(self, node: Node, rank: int) -> None:
        """A block that important requests use stays important: otherwise it could go before those behind it."""
        assert node.block_id is not None, "a root is no block"
        self.pool.set_rank(node.block_id, max(rank, self.pool.get_rank(node.block_id)))

    def drop(self, node: Node) -> None:
        """Take a node and all below it out of the tree. Their blocks stay with their holders."""
        if node.is_gone or node.parent is None:
            return
        parent = node.parent
        del parent.children[node.key]
        if node.is_computed:
            del parent.sorted_keys[bisect_left(parent.sorted_keys, node.key)]
        if parent.block_id is None and not parent.children:
            del self._roots[parent.salt]
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
            assert root.salt == salt, "a root of another salt"
            assert root.children, "a root without children"
            for node in self._walk(root):
                computed = sorted(key for key, child in node.children.items() if child.is_computed)
                assert node.sorted_keys == computed, "computed children are out of order"
                if node is root:
                    continue
                num_found += 1
                assert node.block_id is not None, "a root below a root"
                assert self._nodes[node.block_id] is node, "a block of two nodes"
                assert not node.is_gone, "a node is gone, and found"
                assert len(node.key) == self.block_bytes, "a node that is not of one block"
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
        key = (node.digest, node.salt.cache_salt)
        self._evicted[key] = None
        self._evicted.move_to_end(key)
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
        """The computed child that begins like `rest` for longest: it stands next to where `rest` would."""
        index = bisect_left(node.sorted_keys, rest)
        best, most = None, 0
        for key in node.sorted_keys[max(0, index - 1) : index + 1]:
            num_common = count_common_tokens(key, rest)
            if num_common > most:
                best, most = node.children[key], num_common
        return best, most

    def _walk(self, top: Node) -> Iterator[Node]:
        stack = [top]
        while stack:
            node = stack.pop()
            stack += node.children.values()
            yield node


def count_common_tokens(one: bytes, other: bytes) -> int:
    """The length of the common beginning of two token sequences.

    >>> count_common_tokens(array("i", [1, 2, 3]).tobytes(), array("i", [1, 2, 4, 5]).tobytes())
    2
    """
    num_bytes = min(len(one), len(other))
    difference = int.from_bytes(one[:num_bytes], "big") ^ int.from_bytes(other[:num_bytes], "big")
    return (8 * num_bytes - difference.bit_length()) // 8 // TOKEN_BYTES


def rank_of(priority: int) -> int:
    """What blocks of a request with this priority are worth; a larger number is less important."""
    return LOW if priority > 0 else NORMAL
