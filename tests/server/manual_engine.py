"""A real engine loop that makes a step when the test says so, and that may be taken away for a while."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from typing import Any, final

from tests.api.fakes import make_parts
from tests.engine.fakes import HashExecutor, make_limits

from pelton.api.text_engine import TextEngine
from pelton.core.outputs import EngineStats, RequestOutput
from pelton.core.step import NewRequest, RequestId
from pelton.engine.client import EngineClient
from pelton.engine.live_request import LiveRequests, read_to_end
from pelton.engine.loop import EngineLoop
from pelton.engine.scheduler import Scheduler
from pelton.kvcache.block_pool import BlockPool
from pelton.server.state import ServerState

NUM_BLOCKS, BLOCK_SIZE, MAX_NUM_REQUESTS, MAX_CHUNK = 16, 4, 3, 5


@final
class ManualClient(EngineClient):
    """Keeps requests while there is no engine, and gives them to the next one with what they have."""

    def __init__(self) -> None:
        self.live = LiveRequests()
        self.engine: EngineLoop | None = None
        self.start()

    def start(self) -> None:
        """Have an engine, a new one."""
        limits = make_limits(max_num_requests=MAX_NUM_REQUESTS, max_prefill_chunk=MAX_CHUNK)
        self.scheduler = Scheduler(limits, BlockPool(NUM_BLOCKS, BLOCK_SIZE))
        self.engine = EngineLoop(self.scheduler, HashExecutor(NUM_BLOCKS, BLOCK_SIZE))
        for live in self.live:
            live.is_sent = True
            self.engine.add(live.make_resumed())

    def lose(self) -> None:
        """Have none."""
        self.engine = None
        self.live.unsend_all()

    @property
    def loop(self) -> EngineLoop:
        """The engine, which must be there."""
        assert self.engine is not None, "the engine has been taken away"
        return self.engine

    def step(self) -> None:
        """One step."""
        self.live.deliver(self.loop.step())

    async def generate(self, request: NewRequest) -> AsyncGenerator[RequestOutput]:
        """See EngineClient."""
        live = self.live.open(request)
        if self.engine is not None:
            live.is_sent = True
            self.engine.add(request)
        async with aclosing(read_to_end(live, self.live, self._abort)) as outputs:
            async for output in outputs:
                yield output

    def _abort(self, request_id: RequestId) -> None:
        if self.engine is not None:
            self.engine.abort(request_id)

    async def abort(self, request_id: RequestId) -> None:
        """See EngineClient."""
        self._abort(request_id)

    def stats(self) -> EngineStats:
        """See EngineClient."""
        return EngineStats() if self.engine is None else self.engine.stats()

    def health_problem(self) -> str | None:
        """See EngineClient."""
        return None

    async def close(self, drain_timeout_s: float = 0.0) -> None:
        """See EngineClient."""


def make_manual_state(client: ManualClient, **settings: Any) -> ServerState:
    """A server's state around it."""
    parts = replace(make_parts(**settings), client=client, facts=client.loop.make_facts())
    return ServerState.make(TextEngine(parts))


async def settle(num_turns: int = 50) -> None:
    """Let everything happen that needs no engine."""
    for _ in range(num_turns):
        await asyncio.sleep(0)
