"""A real engine loop that makes its steps on the event loop, takes virtual time for them, and dies now and then."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import final

from tests.engine.fakes import HashExecutor, make_engine

from pelton.core.outputs import EngineStats, RequestOutput
from pelton.core.step import NewRequest, RequestId, SchedulerOutput
from pelton.engine.client import EngineClient
from pelton.engine.live_request import LiveRequests, read_to_end
from pelton.engine.loop import EngineLoop

NUM_BLOCKS, BLOCK_SIZE = 24, 4


class Dies(Exception):
    """What a step raises that was drawn to."""


@final
class SteppedClient(EngineClient):
    """Starts another engine when one dies, and gives it all live requests with what they have."""

    def __init__(self, draw: random.Random, death_rate: float) -> None:
        self._draw = draw
        self._death_rate = death_rate
        self.live = LiveRequests()
        self.num_deaths = 0
        self.engine = self._make()
        self._has_work = asyncio.Event()
        self._stepping = asyncio.create_task(self._step())

    def _make(self) -> EngineLoop:
        executor = HashExecutor(NUM_BLOCKS, BLOCK_SIZE)
        engine = make_engine(NUM_BLOCKS, BLOCK_SIZE, executor, max_num_requests=3, max_prefill_chunk=5)
        engine.on_step = self._maybe_die
        return engine

    def _maybe_die(self, _step: SchedulerOutput) -> None:
        if self._draw.random() < self._death_rate:
            raise Dies

    async def _step(self) -> None:
        while True:
            await self._has_work.wait()
            self._has_work.clear()
            while self.engine.has_work:
                await asyncio.sleep(self._draw.choice([0.0, 0.001, 0.02]))
                try:
                    self.live.deliver(self.engine.step())
                except Dies:
                    await self._replace()

    async def _replace(self) -> None:
        self.num_deaths += 1
        self.live.unsend_all()
        await asyncio.sleep(self._draw.choice([0.0, 0.5]))
        self.engine = self._make()
        for live in self.live:
            live.is_sent = True
            self.engine.add(live.make_resumed())

    async def generate(self, request: NewRequest) -> AsyncGenerator[RequestOutput]:
        """See EngineClient."""
        live = self.live.open(request)
        live.is_sent = True
        self.engine.add(request)
        self._has_work.set()
        async with aclosing(read_to_end(live, self.live, self._abort)) as outputs:
            async for output in outputs:
                yield output

    def _abort(self, request_id: RequestId) -> None:
        self.engine.abort(request_id)
        self._has_work.set()

    async def abort(self, request_id: RequestId) -> None:
        """See EngineClient."""
        self._abort(request_id)

    def stats(self) -> EngineStats:
        """See EngineClient."""
        return self.engine.stats()

    def health_problem(self) -> str | None:
        """See EngineClient."""
        return None

    async def close(self, drain_timeout_s: float = 0.0) -> None:
        """See EngineClient."""
        self._stepping.cancel()
        await asyncio.gather(self._stepping, return_exceptions=True)
