"""Many async generators as one, in the order in which their items come.

Invariant: when the merged generator ends, is closed or raises, every source has been closed; the first failure of a
source is the failure of the whole. For a slow reader at most MAX_UNREAD items wait; then the sources do.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import TypeVar

MAX_UNREAD = 16
T = TypeVar("T")
_Queue = asyncio.Queue[tuple[T] | asyncio.Task[None]]  # an item, or the pump that has no more


async def merge(sources: Sequence[AsyncGenerator[T]]) -> AsyncGenerator[T]:
    """Yield the items of all `sources`. One source costs no task and no queue."""
    if len(sources) == 1:
        async with aclosing(sources[0]) as only:
            async for item in only:
                yield item
        return
    queue: _Queue[T] = asyncio.Queue()
    room = asyncio.Semaphore(MAX_UNREAD)
    pumps = [asyncio.create_task(_pump(source, queue, room)) for source in sources]
    for pump in pumps:
        pump.add_done_callback(queue.put_nowait)
    try:
        num_live = len(pumps)
        while num_live:
            got = await queue.get()
            if isinstance(got, tuple):
                room.release()
                yield got[0]
            else:
                num_live -= 1
                got.result()
    finally:
        for pump in pumps:
            pump.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)


async def _pump(source: AsyncGenerator[T], queue: _Queue[T], room: asyncio.Semaphore) -> None:
    async with aclosing(source) as items:
        async for item in items:
            await room.acquire()
            queue.put_nowait((item,))
