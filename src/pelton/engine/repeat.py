"""How often a decode step is repeated before the scheduler looks again: the host's cost is then shared by more tokens.

Only when nothing waits and every request of the step just extends itself; so nobody is made to wait but a request that
comes in the meantime, and that for MAX_CALL_S at most. What is chosen is the same however often steps are repeated.
"""

from __future__ import annotations

from collections.abc import Collection

from pelton.engine.request import Request
from pelton.kvcache.block_cache import BlockCache

MAX_CALL_S = 0.05  # streams get their tokens in bursts, so a call stays below what the eye sees


def choose_repeat(requests: Collection[Request], max_repeat: int, step_s: float) -> int:
    """Repeats of a step that computes the last known token of each of `requests`; `step_s`: what the last one took."""
    if max_repeat == 1 or not requests:
        return 1
    if not all(request.can_repeat and request.num_uncomputed_tokens == 1 for request in requests):
        return 1
    in_time = max_repeat if step_s <= 0 else int(MAX_CALL_S / step_s)
    left = min(request.length_limit - request.num_tokens for request in requests)
    return max(1, min(max_repeat, in_time, left))


def extend_for_repeat(requests: Collection[Request], cache: BlockCache, repeat: int) -> int:
    """Let `requests` hold blocks for `repeat` more tokens each. 1 if there are not enough: then nothing has changed."""
    pool = cache.pool
    missing = [
        max(0, pool.get_num_blocks_for(request.num_tokens + repeat - 1) - len(request.block_ids))
        for request in requests
    ]
    if repeat == 1 or sum(missing) > pool.num_free:
        return 1
    for request, count in zip(requests, missing, strict=True):
        if count > 0 and request.lease is not None:
            cache.extend(request.lease, count)
    return repeat
