"""Talks to an engine loop in this process, on a thread of its own. The same contract as `ProcessClient`.

The thread owns the loop; the event loop owns the requests. They meet in a queue of messages one way and in
`call_soon_threadsafe` the other. A crash of the native code takes this process along: servers use `ProcessClient`.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from functools import partial
from typing import final

import msgspec

from pelton.core.messages import Abort, Add, Drain, EngineFacts, Shutdown, ToEngine
from pelton.core.outputs import EngineStats, RequestOutput
from pelton.core.step import NewRequest, RequestId
from pelton.engine.client import EngineClient
from pelton.engine.limits import check_against_facts
from pelton.engine.live_request import LiveRequests, read_to_end
from pelton.engine.loop import EngineLoop
from pelton.engine.prefix_query import PrefixQueries
from pelton.engine.process import apply_message, step_or_break
from pelton.errors import CapacityError

logger = logging.getLogger(__name__)


@final
class InProcessClient(EngineClient):
    """Runs `engine` on a thread. Make it inside the event loop that will use it."""

    def __init__(
        self,
        engine: EngineLoop,
        *,
        stall_timeout_s: float = 30.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._engine = engine
        self._clock = clock
        self._stall_timeout_s = stall_timeout_s
        self._facts = engine.make_facts()
        self._stats = engine.stats()
        self._live = LiveRequests()
        self._problem: str | None = None
        self._messages: queue.SimpleQueue[ToEngine] = queue.SimpleQueue()
        self._prefixes = PrefixQueries(self._messages.put)
        self._event_loop = asyncio.get_running_loop()
        self._has_ended = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        self._thread.start()

    @property
    def facts(self) -> EngineFacts:
        """What the engine knows of itself."""
        return self._facts

    async def generate(self, request: NewRequest) -> AsyncGenerator[RequestOutput]:
        """See EngineClient. Raises RequestError if the request can never run, CapacityError if there is no engine."""
        check_against_facts(request, self._facts)
        problem = self.health_problem()
        if problem is not None:
            raise CapacityError(problem)
        live = self._live.open(request)
        self._messages.put(Add(request))
        async with aclosing(read_to_end(live, self._live, self._send_abort)) as outputs:
            async for output in outputs:
                yield output

    async def abort(self, request_id: RequestId) -> None:
        """End a request with finish_reason "abort". Unknown and finished ids are ignored."""
        self._send_abort(request_id)

    def stats(self) -> EngineStats:
        """The figures after the newest step."""
        return self._stats if self.health_problem() is None else msgspec.structs.replace(self._stats, is_up=False)

    def health_problem(self) -> str | None:
        """Why the engine cannot be trusted with a request, or None."""
        if self._problem is not None:
            return self._problem
        if self._engine.broken is not None:
            return f"The engine has failed: {self._engine.broken}"
        started_s = self._engine.step_started_s
        if started_s is not None and self._clock() - started_s > self._stall_timeout_s:
            return f"The engine is stuck: a step has run for {self._clock() - started_s:.0f} s."
        return None

    async def close(self, drain_timeout_s: float = 0.0) -> None:
        """Let live requests run for at most `drain_timeout_s`, abort the others, and end the thread."""
        self._problem = "The engine is closed."
        self._messages.put(Drain())
        if drain_timeout_s > 0:
            await self._live.wait_until_empty(drain_timeout_s)
        self._messages.put(Shutdown())
        await self._has_ended.wait()  # not a thread that joins: none can be started while Python exits
        self._thread.join()
        self._live.end_all("abort")

    @property
    def prefixes(self) -> PrefixQueries:
        """See EngineClient."""
        problem = self.health_problem()
        if problem is not None:
            raise CapacityError(problem)
        return self._prefixes

    def _send_abort(self, request_id: RequestId) -> None:
        self._messages.put(Abort(request_id))

    def _run(self) -> None:
        """The thread: messages between steps, asleep without work. Whatever ends it ends every live request."""
        engine = self._engine
        try:
            is_asked_to_end = False
            while not is_asked_to_end:
                is_asked_to_end = self._apply_messages()
                for answer in engine.take_answers():
                    self._call_soon(partial(self._prefixes.deliver, answer))
                outputs = step_or_break(engine)
                self._stats = engine.stats()
                if outputs:
                    self._call_soon(partial(self._live.deliver, outputs))
        finally:
            self._problem = self._problem or "The engine's thread has ended."
            self._call_soon(partial(self._live.end_all, "error", self._problem))
            self._call_soon(partial(self._prefixes.fail_all, self._problem))
            try:
                engine.close()
            finally:
                self._call_soon(self._has_ended.set)

    def _call_soon(self, callback: Callable[[], None]) -> None:
        try:
            self._event_loop.call_soon_threadsafe(callback)
        except RuntimeError:  # the event loop was closed without `close`: nobody listens any more
            logger.warning("the engine's outputs have no reader: the event loop is closed")

    def _apply_messages(self) -> bool:
        """Take in what has been asked for, waiting if there is no work. True once it is Shutdown."""
        is_idle = not self._engine.has_work
        while is_idle or not self._messages.empty():
            message = self._messages.get()
            if isinstance(message, Shutdown):
                self._engine.abort_all()
                return True
            apply_message(self._engine, message)
            is_idle = False
        return False
