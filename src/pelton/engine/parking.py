"""Requests that wait, outside the queue, for a block that another computes just now and that they begin with too.

Invariant: a parked request is in the list of the block it waits for, or that block is done and it is about to be taken
out. Whoever computes the block runs, so nobody is parked for ever. O(1) per request but for leaving early.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import final

from pelton.core.step import RequestId
from pelton.engine.request import Request
from pelton.kvcache.prefix_tree import Node, PrefixTree


@final
class Parking:
    """The parked requests of one scheduler. `tree` wakes them."""

    def __init__(self, tree: PrefixTree) -> None:
        self._tree = tree
        self._num_parked = 0

    def __len__(self) -> int:
        return self._num_parked

    def park(self, request: Request, node: Node) -> None:
        """Let a request wait for `node`, which is promised."""
        node.waiting.append(request.request_id)
        request.waits_for = node
        self._num_parked += 1

    def leave(self, request: Request) -> None:
        """Take a parked request out before its block is there."""
        assert request.waits_for is not None, "a request that is not parked leaves"
        if request.request_id in request.waits_for.waiting:  # otherwise it was woken after the last step
            request.waits_for.waiting.remove(request.request_id)
        request.waits_for = None
        self._num_parked -= 1

    def take_ready(self, live: Mapping[RequestId, Request]) -> Iterator[Request]:
        """Those whose block is computed, or will not be because its request went; they are not parked any more."""
        for request_id in self._tree.take_woken():
            request = live.get(request_id)
            if request is not None and request.waits_for is not None:
                self.leave(request)
                yield request

    def check(self, live: Iterable[Request]) -> None:
        """Raise AssertionError if the count is wrong."""
        num_parked = sum(request.waits_for is not None for request in live)
        assert num_parked == self._num_parked, "the count of parked requests is wrong"
