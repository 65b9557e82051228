"""Who is parked, who leaves, and who is woken."""

from array import array

import pytest
from tests.engine.fakes import make_request

from pelton.core.step import RequestId
from pelton.engine.parking import Parking
from pelton.engine.request import Request
from pelton.kvcache.block_cache import BlockCache, Lease
from pelton.kvcache.block_pool import BlockPool
from pelton.kvcache.prefix_tree import Node, Salt

pytestmark = pytest.mark.unit
TOKENS = array("i", range(9))


def make_promise(cache: BlockCache) -> tuple[Lease, Node]:
    """A request that is about to compute two blocks, and the second of them."""
    lease, _ = cache.take(cache.find(Salt(), TOKENS), 3)
    cache.promise(lease, TOKENS)
    return lease, lease.nodes[-1]


def make_parked(name: str) -> Request:
    return Request(make_request(name, list(TOKENS)), 0, 99, 1.0)


def test_parked_requests_come_back_when_their_block_is_computed() -> None:
    cache = BlockCache(BlockPool(8, 4))
    lease, node = make_promise(cache)
    parking, live = Parking(cache.tree), {RequestId(name): make_parked(name) for name in "abc"}
    for request in live.values():
        parking.park(request, node)
    assert len(parking) == 3
    parking.leave(live[RequestId("b")])
    parking.check(live.values())
    assert list(parking.take_ready(live)) == []
    cache.publish(lease, TOKENS, 9)
    parking.leave(live.pop(RequestId("c")))  # it was woken, and ends before anybody looks
    parking.check(live.values())
    assert [request.request_id for request in parking.take_ready(live)] == ["a"]
    assert len(parking) == 0
    parking.check(live.values())


def test_parked_requests_come_back_when_their_block_will_not_be_computed() -> None:
    cache = BlockCache(BlockPool(8, 4))
    lease, node = make_promise(cache)
    parking, request = Parking(cache.tree), make_parked("a")
    parking.park(request, node)
    cache.release(lease)
    assert list(parking.take_ready({request.request_id: request})) == [request]
    assert request.waits_for is None
