"""What of a world decides how it goes on, as 16 bytes.

Left out is what only describes (counters, times, reasons of misses), and made equal is what is equal but for names:
blocks are numbered as they are met, requests that live by arrival, time by how long somebody has waited. Memory follows
from the rest, because `World.check` compares it with what was computed. The tests try worlds with equal keys.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from typing import Any

import msgspec
from tests.exhaustive.world import TICK_S, World, number_of

from pelton.engine.request import Request
from pelton.kvcache.block_pool import LOW, NORMAL, BlockPool

encode = msgspec.msgpack.Encoder().encode
Name = Callable[[int], int]


def make_key(world: World) -> bytes:
    """Equal for worlds that behave the same."""
    return blake2b(encode(describe(world)), digest_size=16).digest()


def describe(world: World) -> tuple[Any, ...]:
    """The same, to read."""
    if world.is_broken:
        return ("broken",)
    scheduler = world.scheduler
    names: dict[int, int] = {}
    numbers = {request_id: index for index, request_id in enumerate(sorted(world.live, key=number_of))}

    def name(block_id: int) -> int:
        return names.setdefault(block_id, len(names))

    def number(request_id: Any) -> int:
        return numbers.get(request_id, -1)

    running = [describe_running(request, number, name) for request in scheduler._running]
    tree = [
        (*salt, describe_nodes(root, scheduler.pool, number, name))
        for salt, root in sorted(scheduler.cache.tree._roots.items())
    ]
    free = [[name(block_id) for block_id in scheduler.pool._free[rank]] for rank in (LOW, NORMAL)]
    parked = {r.request_id: name(r.waits_for.block_id or 0) for r in world.live.values() if r.waits_for is not None}
    requests = []
    for request_id in numbers:
        request = world.live[request_id]
        deadline_s = request.new.deadline_s
        requests.append((
            world.shapes[number_of(request_id)],
            request.num_tokens,
            request.num_preemptions,
            round((world.now_s - request.arrival_s) / TICK_S) if world.setting.num_ticks else 0,
            round((deadline_s - world.now_s) / TICK_S) if deadline_s else -99,
            parked.get(request_id, -1),
        ))  # fmt: skip
    return (
        requests,
        running,
        tree,
        free,
        [number(request_id) for request_id in scheduler.cache.tree._woken if request_id in numbers],
        describe_tenants(world),
        scheduler._step_s > 0.0,  # whether steps are short enough to be repeated
        (len(world.rows), len(scheduler._rows_to_free)),
        world.pending and describe_pending(world, number, name),
        world.setting.num_requests - len(world.shapes),
        world.setting.num_ticks - world.num_ticks
        if world.live or len(world.shapes) < world.setting.num_requests
        else 0,
        (world.num_pins, [len(prefix.path) for prefix in scheduler.cache.names._by_name.values()]),
    )


def describe_running(request: Request, number: Any, name: Name) -> tuple[Any, ...]:
    lease = request.lease
    assert lease is not None
    return (
        number(request.request_id),
        request.num_computed_tokens,
        [name(block_id) for block_id in lease.block_ids],
        [-1 if node.is_gone else name(node.block_id or 0) for node in lease.nodes[1:]],
        lease.num_shared,
        lease.num_computed_blocks,
    )


def describe_nodes(node: Any, pool: BlockPool, number: Any, name: Name) -> list[Any]:
    """What is below a node."""
    return [
        (
            key,
            name(child.block_id),
            child.is_computed,
            child.rank,
            pool.get_rank(child.block_id),
            [number(request_id) for request_id in child.waiting],
            describe_nodes(child, pool, number, name),
        )
        for key, child in sorted(node.children.items())
    ]


def describe_tenants(world: World) -> list[tuple[str, float]]:
    """What each tenant has had more than the one to which it would be lifted; nothing if it will be, whatever comes."""
    queue = world.scheduler._waiting
    if not queue._num_live:
        return []  # forgotten when the next one comes
    base = min(map(queue.get_charge, queue._num_queued), default=queue.get_charge(queue._last))
    ahead = ((tenant, queue.get_charge(tenant) - base) for tenant in {*queue._had, *queue._num_live})
    last = [] if queue._num_queued else [(queue._last, -1.0)]
    return last + sorted((tenant, more) for tenant, more in ahead if more > 0 or tenant in queue._num_live)


def describe_pending(world: World, number: Any, name: Name) -> tuple[Any, ...]:
    step = world.pending
    assert step is not None
    live = [part for part in step.scheduled if part.request_id in world.live]
    return (
        [(number(p.request_id), p.num_computed_tokens, p.num_scheduled_tokens, len(p.block_ids)) for p in live],
        [(name(copy.source), name(copy.target)) for copy in step.copies],
        len(step.finished),
        [number(new.request_id) for new in step.added],
        step.repeat,
        world.now_s > world.scheduler._started_s,
    )
