"""Prefixes that somebody gave a name, so that they stay in the cache until their time is over or they are released.

A name holds the blocks of its prefix that are there, and takes each further one when a request has computed it. What
all names of a tenant may hold is limited, and so is what all tenants may: the rest of the pool is always there for
requests. If one request can only run with that part too, names let go of their blocks, those that end soonest first
(`give_way`), and take them again when they are computed the next time: nobody waits for ever because of a name.

Runs on the engine's only thread. O(1) per block; time comes from whoever calls.
"""

from __future__ import annotations

import logging
import math
from array import array
from collections.abc import Iterator
from typing import Final, final

from pelton.core.outputs import PrefixInfo
from pelton.core.step import BlockId
from pelton.errors import CapacityError, RateLimited, RequestError
from pelton.kvcache.prefix_tree import Node, PrefixTree, Salt

logger = logging.getLogger(__name__)

TENANT_SHARE: Final = 0.25  # of the pool
SHARE: Final = 0.5  # of the pool, all tenants together


@final
class NamedPrefix:
    """A name of a tenant, the tokens it stands for in whole blocks, and the nodes it holds."""

    __slots__ = ("ends_s", "name", "num_blocks", "path", "salt", "tokens")

    def __init__(self, name: str, salt: Salt, tokens: bytes, num_blocks: int, ends_s: float) -> None:
        self.name = name
        self.salt = salt
        self.tokens = tokens
        self.num_blocks = num_blocks
        self.ends_s = ends_s
        self.path: list[Node] = []


@final
class NamedPrefixes:
    """All names, by tenant. At most TENANT_SHARE of the pool for one tenant, and SHARE for all."""

    def __init__(self, tree: PrefixTree) -> None:
        self._pool = tree.pool
        self._tree = tree
        self._by_name: dict[tuple[str, str], NamedPrefix] = {}  # by tenant and name
        self._wanted: dict[tuple[Node | Salt, bytes], list[NamedPrefix]] = {}  # by the block they go on with
        self._next_end_s = math.inf

    def pin(self, name: str, salt: Salt, token_ids: tuple[int, ...], ttl_s: float | None, now_s: float) -> PrefixInfo:
        """Keep a prefix under `name`, in place of what it stood for. Raises RequestError if the prefix fills no block,
        RateLimited or CapacityError if the tenant's share, or everybody's, is used up; then nothing has changed."""
        self.expire(now_s)
        num_blocks = len(token_ids) // self._pool.block_size
        if num_blocks == 0:
            raise RequestError(
                f"prefix {name!r}: {len(token_ids)} tokens, expected at least {self._pool.block_size}: the cache keeps "
                "whole blocks.",
                param="prompt",
            )
        before = self._by_name.get((salt.tenant, name))
        self._check_share(name, salt.tenant, num_blocks, before)
        if before is not None:
            self.release(name, salt.tenant)
        ends_s = math.inf if ttl_s is None else now_s + ttl_s
        tokens = array("i", token_ids).tobytes()[: num_blocks * self._tree.block_bytes]
        prefix = self._by_name[salt.tenant, name] = NamedPrefix(name, salt, tokens, num_blocks, ends_s)
        self._next_end_s = min(self._next_end_s, ends_s)
        self._go_on(prefix)
        return self._make_info(prefix, now_s)

    def release(self, name: str, tenant: str) -> bool:
        """Let a name go. False if there is none."""
        prefix = self._by_name.pop((tenant, name), None)
        if prefix is None:
            return False
        self._let_go(prefix)
        return True

    def list_of(self, tenant: str, now_s: float) -> list[PrefixInfo]:
        """A tenant's names, in alphabetical order."""
        self.expire(now_s)
        mine = sorted(key for key in self._by_name if key[0] == tenant)
        return [self._make_info(self._by_name[key], now_s) for key in mine]

    def expire(self, now_s: float) -> None:
        """Let go of names whose time is over. Costs nothing while none is."""
        if now_s < self._next_end_s:
            return
        for (tenant, name), prefix in list(self._by_name.items()):
            if prefix.ends_s <= now_s:
                self.release(name, tenant)
        self._next_end_s = min((prefix.ends_s for prefix in self._by_name.values()), default=math.inf)

    def follow(self, node: Node) -> None:
        """A node was filled, or found by a request: names that go on with it hold it from now on."""
        if self._wanted and node.parent is not None:
            for prefix in self._wanted.pop((_get_place(node.parent), node.key), ()):
                self._go_on(prefix)

    def forget_gone(self) -> None:
        """Nodes may have left the tree: names that held one hold again what is there."""
        for prefix in self._by_name.values():
            if any(node.is_gone for node in prefix.path):
                self._let_go(prefix)
                self._go_on(prefix)

    def give_way(self, num_blocks: int) -> bool:
        """Let go of blocks until `num_blocks` are free; whether they are. For a request that has no other way."""
        for prefix in sorted(self._by_name.values(), key=lambda prefix: prefix.ends_s):
            if self._pool.num_free >= num_blocks:
                break
            if prefix.path:
                logger.warning("prefix %r gives its blocks to a request that needs them", prefix.name)
                self._let_go(prefix)
                self._want(prefix)
        return self._pool.num_free >= num_blocks

    def get_held_blocks(self) -> Iterator[BlockId]:
        """The blocks that names hold; one that several hold comes several times."""
        for prefix in self._by_name.values():
            yield from _get_blocks(prefix)

    def _check_share(self, name: str, tenant: str, num_blocks: int, before: NamedPrefix | None) -> None:
        others = [prefix for prefix in self._by_name.values() if prefix is not before]
        num_mine = sum(prefix.num_blocks for prefix in others if prefix.salt.tenant == tenant)
        most_mine = int(self._pool.num_blocks * TENANT_SHARE)
        if num_mine + num_blocks > most_mine:
            size = self._pool.block_size
            raise RateLimited(
                f"prefix {name!r}: {num_blocks * size} tokens beside {num_mine * size} that are kept for you already, "
                f"expected at most {most_mine * size} in all. Release another, or make this one shorter."
            )
        if sum(prefix.num_blocks for prefix in others) + num_blocks > int(self._pool.num_blocks * SHARE):
            raise CapacityError(f"prefix {name!r}: others keep so much of the cache that there is no room for it.")

    def _go_on(self, prefix: NamedPrefix) -> None:
        """Hold each further block that is there."""
        while len(prefix.path) < prefix.num_blocks:
            parent = prefix.path[-1] if prefix.path else self._tree.get_root(prefix.salt)
            node = parent.children.get(self._get_next_key(prefix))
            if node is None or node.block_id is None or not node.is_computed:
                self._want(prefix)
                return
            self._pool.share([node.block_id])
            prefix.path.append(node)

    def _want(self, prefix: NamedPrefix) -> None:
        place = prefix.path[-1] if prefix.path else prefix.salt
        self._wanted.setdefault((place, self._get_next_key(prefix)), []).append(prefix)

    def _let_go(self, prefix: NamedPrefix) -> None:
        if len(prefix.path) < prefix.num_blocks:
            place = prefix.path[-1] if prefix.path else prefix.salt
            key = (place, self._get_next_key(prefix))
            self._wanted[key].remove(prefix)
            if not self._wanted[key]:
                del self._wanted[key]
        self._pool.release(_get_blocks(prefix))
        prefix.path = []

    def _get_next_key(self, prefix: NamedPrefix) -> bytes:
        start = len(prefix.path) * self._tree.block_bytes
        return prefix.tokens[start : start + self._tree.block_bytes]

    def _make_info(self, prefix: NamedPrefix, now_s: float) -> PrefixInfo:
        return PrefixInfo(
            name=prefix.name,
            num_tokens=prefix.num_blocks * self._pool.block_size,
            num_cached_tokens=len(prefix.path) * self._pool.block_size,
            ttl_left_s=None if math.isinf(prefix.ends_s) else prefix.ends_s - now_s,
        )


def _get_place(parent: Node) -> Node | Salt:
    """How names find what goes on behind `parent`: roots come and go, so their salt stands for them."""
    return parent.salt if parent.parent is None else parent


def _get_blocks(prefix: NamedPrefix) -> list[BlockId]:
    return [node.block_id for node in prefix.path if node.block_id is not None]
