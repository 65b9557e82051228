"""Talks to an engine in a process of its own, and outlives it.

Every request is kept here with its prompt and the tokens received, until its last output. When the engine is gone, the
next one gets all of them with what they have, and goes on: tokens depend on nothing but the request and its position,
so nobody can tell. Requests that come meanwhile wait. One that takes the engine with it twice ends with an error
(replay.py); all do if the supervisor gives up.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import final

from pelton.core.messages import Abort, Add, EngineFacts, FromEngine, Outputs, PrefixAnswer, Progress, Working
from pelton.core.outputs import EngineStats, RequestOutput
from pelton.core.step import NewRequest, RequestId
from pelton.engine.client import EngineClient
from pelton.engine.limits import check_against_facts
from pelton.engine.live_request import LiveRequest, LiveRequests, make_abort, read_to_end
from pelton.engine.prefix_query import PrefixQueries
from pelton.engine.replay import Replay
from pelton.engine.started import Started
from pelton.engine.stats_sum import StatsSum
from pelton.engine.supervisor import Listener, Patience, Supervisor
from pelton.errors import CapacityError, InternalError


@final
class ProcessClient(EngineClient, Listener):
    """Runs `command` (plus the number of a socket) as the engine, or takes `first`. Call `start` once, first."""

    def __init__(
        self, command: Sequence[str], config: bytes, patience: Patience | None = None, first: Started | None = None
    ) -> None:
        self._supervisor = Supervisor(command, config, self, patience, first)
        self._live = LiveRequests()
        self._replay = Replay()
        self._working: tuple[RequestId, ...] = ()  # the requests of the engine's last step
        self._prefixes = PrefixQueries(self._supervisor.send)
        self._stats = StatsSum()
        self._facts: EngineFacts | None = None
        self._lost: asyncio.Future[str] | None = None  # why there will be no engine any more
        self._on_progress: Callable[[str, float], None] | None = None

    @property
    def facts(self) -> EngineFacts:
        """What the newest engine that was ready has told of itself."""
        assert self._facts is not None, "the engine has not been started"
        return self._facts

    @property
    def engine_pid(self) -> int | None:
        """The engine's process id, while there is one."""
        return self._supervisor.pid

    @property
    def num_restarts(self) -> int:
        """How often the engine has been started again."""
        return self._supervisor.num_restarts

    async def start(self, on_progress: Callable[[str, float], None] | None = None) -> EngineFacts:
        """Start the engine and wait until it is ready. Raises what it failed with.

        `on_progress` hears what an engine does before it is ready, this one and later ones: (stage, fraction).
        """
        self._on_progress = on_progress
        self._lost = asyncio.get_running_loop().create_future()
        return await self._supervisor.start()

    async def generate(self, request: NewRequest) -> AsyncGenerator[RequestOutput]:
        """See EngineClient. Raises RequestError if the request can never run, CapacityError if there is no engine."""
        if self._facts is not None:
            check_against_facts(request, self._facts)
        await self._supervisor.wait_until_writable()
        problem = self.refusal()
        if problem is not None:
            raise CapacityError(problem)
        live = self._live.open(request)
        try:
            self._send_unsent(live)
        except BaseException:  # such as a request too large for a frame: no engine has it, and none may be given it
            live.is_sent = False
            self._live.leave(request.request_id)
            raise
        async with aclosing(read_to_end(live, self._live, self._send_abort)) as outputs:
            async for output in outputs:
                yield output

    async def abort(self, request_id: RequestId) -> None:
        """End a request with finish_reason "abort", at once if no engine has it. Others than live ones are ignored."""
        live = self._live.find(request_id)
        if live is None:
            return
        live.is_aborted = True
        if not live.is_sent:
            self._live.deliver([make_abort(request_id)])
        self._send_abort(request_id)

    def stats(self) -> EngineStats:
        """The newest figures that the engine has sent; its counters go on where those of the last engine ended."""
        return self._stats.total(is_up=self._supervisor.problem() is None, num_restarts=self._supervisor.num_restarts)

    @property
    def prefixes(self) -> PrefixQueries:
        """See EngineClient."""
        problem = self._supervisor.problem()
        if problem is not None:
            raise CapacityError(problem)
        return self._prefixes

    def health_problem(self) -> str | None:
        """Why the engine cannot be trusted with a request, or None."""
        return self._supervisor.problem()

    def refusal(self) -> str | None:
        """None also while an engine that went is being replaced."""
        return self._supervisor.refusal()

    async def wait_until_lost(self) -> str:
        """See EngineClient."""
        assert self._lost is not None, "the engine has not been started"
        return await asyncio.shield(self._lost)

    async def close(self, drain_timeout_s: float = 0.0) -> None:
        """Let live requests run for at most `drain_timeout_s`, abort the others, and end the engine."""
        self._supervisor.begin_drain()
        if drain_timeout_s > 0:
            await self._live.wait_until_empty(drain_timeout_s)
        await self._supervisor.close()
        self._live.end_all("abort")
        self._prefixes.fail_all("The server is shutting down.")

    def on_message(self, message: FromEngine) -> None:
        """Take outputs to their readers."""
        if isinstance(message, Outputs):
            self._stats.take(message.stats)
            self._live.deliver(message.outputs)
            if self._replay.is_trying:
                self._go_on_after_trial(message.outputs)
        elif isinstance(message, Working):
            self._working = message.request_ids
        elif isinstance(message, PrefixAnswer):
            self._prefixes.deliver(message)
        elif isinstance(message, Progress) and self._on_progress is not None:
            self._on_progress(message.stage, message.fraction)

    def on_up(self, facts: EngineFacts) -> None:
        """Remember what the engine told of itself."""
        self._facts = facts
        self._prefixes.renew()
        self._send_unsent()

    def on_down(self, reason: str, *, is_external: bool) -> bool:
        """Find out who may be to blame; the others only notice a pause."""
        self._stats.end_engine()
        answered = {live.request.request_id for live in self._live if live.is_answered}
        self._live.unsend_all()
        self._live.end_aborted()
        live_ids = {live.request.request_id for live in self._live}
        self._prefixes.fail_all(reason)
        culprit = self._replay.down(self._working, live_ids, is_external=is_external, answered=answered)
        self._working = ()
        if culprit is not None and culprit in live_ids:
            error = f"The engine failed twice while it computed this request, the second time alone. {reason}"
            end = RequestOutput(
                request_id=culprit, finish_reason="error", error=error, error_class=InternalError.__name__
            )
            self._live.deliver([end])
        return culprit is not None

    def on_given_up(self, reason: str) -> None:
        """End every live request with an error."""
        self._live.end_all("error", reason)
        self._prefixes.fail_all(reason)
        if self._lost is not None:
            self._lost.set_result(reason)

    def _send_unsent(self, newest: LiveRequest | None = None) -> None:
        """Give the engine whom it does not know yet and may have; only `newest`, if nobody else can be waiting."""
        if not self._supervisor.is_up:
            return
        if newest is not None and not self._replay.is_trying:
            chosen = [newest]
        else:
            unsent = {live.request.request_id: live for live in self._live if not live.is_sent}
            chosen = [unsent[request_id] for request_id in self._replay.choose(list(unsent))]
        for live in chosen:
            live.is_sent = True
            self._supervisor.send(Add(live.make_resumed()))

    def _go_on_after_trial(self, outputs: Sequence[RequestOutput]) -> None:
        if any(self._replay.answered(output.request_id) for output in outputs):
            self._send_unsent()

    def _send_abort(self, request_id: RequestId) -> None:
        self._supervisor.send(Abort(request_id))
        if self._replay.forget(request_id):
            self._send_unsent()
