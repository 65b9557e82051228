"""Keeps one engine process running: starts it, notices that it died or is stuck, starts another.

An engine that is stopped, says nothing for `silence_timeout_s`, or says that its step will not end, is killed. One
restart is made at once; further ones wait, twice as long each time, and end after `max_restarts` in a row of engines
that gave no output and did not stay up for `stable_s`. When a request was to blame the count begins anew: as often as
`max_explained` times. After that there is only `problem`.

Runs on the server's event loop. A failure of the very first start is raised to whoever called `start`: it is a wrong
flag or file much more often than bad luck.
"""

from __future__ import annotations

import asyncio
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, final

from pelton import __version__
from pelton.core.messages import Drain, EngineFacts, FromEngine, Hello, Shutdown, ToEngine
from pelton.engine.child import Child
from pelton.engine.started import Started, start_process
from pelton.errors import EngineError, InternalError, TransferError

logger = logging.getLogger(__name__)

LOOK_S: Final = 0.25
SILENCE_S: Final = 2.0  # from then on it cannot be trusted, which is not yet a reason to end it


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long the supervisor waits for what."""

    start_timeout_s: float = 600.0  # from one sign of life to the next, while the engine loads
    stopped_timeout_s: float = 1.5  # of silence, from a process that is stopped
    silence_timeout_s: float = 10.0  # it speaks every 0.3 s, but the machine may be busy
    stall_timeout_s: float = 30.0  # of one step: much longer than the longest
    exit_timeout_s: float = 5.0  # from being asked to end to its end
    last_timeout_s: float = 1.0  # from its last word to its end
    first_backoff_s: float = 0.5
    max_backoff_s: float = 30.0
    max_restarts: int = 5
    max_explained: int = 30  # in a row without a token from anybody: then it is not the requests
    stable_s: float = 60.0


class Listener(ABC):
    """Who hears what happens to the engine. Called on the event loop; must not block."""

    @abstractmethod
    def on_message(self, message: FromEngine) -> None:
        """The engine said something."""

    @abstractmethod
    def on_up(self, facts: EngineFacts) -> None:
        """An engine is ready. It knows of no request."""

    @abstractmethod
    def on_down(self, reason: str, *, is_external: bool) -> bool:
        """The engine is gone, with all its requests. `reason` is a sentence. `on_up` or `on_given_up` follows.

        Returns whether it is known why, so that it will not happen again: a request was to blame, and was ended.
        `is_external`: it was killed or stopped by somebody else; otherwise a request of its last step may be to blame.
        """

    @abstractmethod
    def on_given_up(self, reason: str) -> None:
        """There will be no further engine."""


@final
class Supervisor:
    """Runs `command` (plus the number of a socket) as the engine and gives it `config`.

    `first` is that command, started already, to be the first engine.
    """

    def __init__(
        self,
        command: Sequence[str],
        config: bytes,
        listener: Listener,
        patience: Patience | None = None,
        first: Started | None = None,
    ) -> None:
        self._command = tuple(command)
        self._config = config
        self._listener = listener
        self._patience = patience or Patience()
        self._first = first
        self._child: Child | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._problem: str | None = "The engine has not been started."
        self._is_ready = False  # there is an engine that takes messages
        self._is_expected = False  # if there is none, another one is on its way
        self._is_closing = False
        self.num_restarts = 0

    @property
    def pid(self) -> int | None:
        """The engine's process id, while there is one."""
        return None if self._child is None else self._child.pid

    @property
    def is_up(self) -> bool:
        """Whether messages reach an engine that is ready."""
        return self._is_ready and self._child is not None and not self._child.lost.done()

    def refusal(self) -> str | None:
        """Why there is no engine and will be none soon, or None."""
        return None if self._is_expected else self.problem()

    def problem(self) -> str | None:
        """Why there is no engine to give requests to, or None."""
        if self._is_closing:
            return "The server is shutting down."
        if self._problem is None and self._child is not None:
            if self._child.lost.done():
                return f"The engine has ended: {self._child.lost.result()}"
            silence_s = time.monotonic() - self._child.last_message_s
            if silence_s > SILENCE_S:
                return f"The engine has said nothing for {silence_s:.0f} s."
            if self._child.pulse.problem:
                return f"The engine is stuck: {self._child.pulse.problem}."
        return self._problem

    async def start(self) -> EngineFacts:
        """Start the engine and wait until it is ready. Raises what the engine failed with."""
        try:
            facts = await self._start_child()
        except EngineError as error:
            self._problem = f"The engine could not be started: {error}"
            raise
        self._is_expected = True
        self._keeper = asyncio.create_task(self._keep_running(), name="engine-supervisor")
        return facts

    def send(self, message: ToEngine) -> None:
        """Send a message to the engine, if there is one."""
        if self._child is not None:
            self._child.send(message)

    async def wait_until_writable(self) -> None:
        """Wait while the engine takes messages more slowly than they come."""
        if self._child is not None:
            await self._child.wait_until_writable()

    def begin_drain(self) -> None:
        """Refuse requests from here on."""
        self._is_closing = True
        self._is_expected = False
        self.send(Drain())

    async def close(self) -> None:
        """End the engine: politely, then not."""
        self._is_closing = True
        self._is_expected = False
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)
        if self._child is not None:
            self._child.send(Shutdown())
            how = await self._child.end(self._patience.exit_timeout_s)
            logger.info("the engine process has ended (%s)", how)
            self._child = None

    async def _start_child(self) -> EngineFacts:
        """One attempt. Whatever goes wrong, no process is left."""
        self._problem = "The engine is starting."
        started, self._first = self._first, None
        if started is None or not started.is_running:  # it gives up when Hello takes too long, as after a download
            if started is not None:
                started.discard()
            started = start_process(self._command)
        try:
            child = self._child = await Child.adopt(started, self._listener.on_message)
        except BaseException:
            started.discard()
            raise
        try:
            child.send(Hello(__version__, self._config))
            facts = await self._wait_until_ready(child)
        except BaseException:
            child.kill()
            await child.end(0.0)
            self._child = None
            raise
        self._problem = None
        self._is_ready = True
        self._listener.on_up(facts)
        return facts

    async def _wait_until_ready(self, child: Child) -> EngineFacts:
        patience_s = self._patience.start_timeout_s
        while True:
            remaining_s = child.last_message_s + patience_s - time.monotonic()
            if remaining_s <= 0:
                raise TransferError(f"engine process: no sign of life for {patience_s:g} s while it started.")
            watched: set[asyncio.Future[Any]] = {child.ready, child.lost}
            await asyncio.wait(watched, timeout=remaining_s, return_when=asyncio.FIRST_COMPLETED)
            if child.lost.done():
                error = child.lost.result()
                how = await child.end(self._patience.exit_timeout_s)
                if isinstance(error, TransferError):
                    raise TransferError(f"engine process: it ended before it was ready: {error} ({how}).")
                raise error
            if child.ready.done():
                return child.ready.result()

    async def _keep_running(self) -> None:
        """Watch the engine; when it is gone, say so and start another, until the budget is spent."""
        num_failures = num_explained = 0
        reason = ""
        while True:
            started_s = time.monotonic()
            if self._child is not None:
                child = self._child
                reason = await self._watch(child)
                self._child = None
                self._is_ready = False
                logger.error("%s", reason)
                self._problem = reason
                is_explained = self._listener.on_down(reason, is_external=child.was_killed or child.was_stopped)
                was_useful = child.has_given_output or time.monotonic() - started_s > self._patience.stable_s
                num_failures = 0 if was_useful or is_explained else num_failures
                num_explained = 0 if was_useful else num_explained + is_explained
            num_failures += 1
            if num_failures > self._patience.max_restarts or num_explained > self._patience.max_explained:
                number = max(num_failures, num_explained)
                self._give_up(f"The engine failed {number} times in a row and is not restarted. Last: {reason}")
                return
            if num_failures > 1:
                delay_s = self._patience.first_backoff_s * 2 ** (num_failures - 2)
                await asyncio.sleep(min(delay_s, self._patience.max_backoff_s))
            self.num_restarts += 1
            try:
                await self._start_child()
            except EngineError as error:
                reason = f"The engine could not be restarted: {error}"
                logger.error("%s", reason)
                self._problem = reason
            else:
                logger.info("the engine was started again and takes requests")

    def _give_up(self, reason: str) -> None:
        self._problem = reason
        self._is_expected = False
        logger.error("%s", reason)
        self._listener.on_given_up(reason)

    async def _watch(self, child: Child) -> str:
        """Wait until the engine is gone, or stuck and killed. Why, as a sentence."""
        looked_s = time.monotonic()
        while not child.lost.done():
            await asyncio.wait({child.lost}, timeout=LOOK_S)
            last_looked_s, looked_s = looked_s, time.monotonic()
            if looked_s - last_looked_s > 2 * LOOK_S:
                continue  # this process itself was held up: what the engine said meanwhile is not read yet
            problem = None if child.lost.done() else self._find_whether_stuck(child, looked_s)
            if problem is not None:
                child.kill()
                await child.end(0.0)
                return f"The engine was stuck: {problem}. It was ended and restarts."
        error = child.lost.result()
        how = await child.end(self._patience.last_timeout_s)
        if isinstance(error, InternalError):
            return f"The engine failed: {error}"
        if child.is_unintelligible:
            return f"The engine was ended, because it cannot be understood: {error}"
        return f"The engine process died ({how}): {error}."

    def _find_whether_stuck(self, child: Child, now_s: float) -> str | None:
        """Why the engine must be ended, or None."""
        silence_s = now_s - child.last_message_s
        if silence_s > self._patience.stopped_timeout_s and child.is_stopped:
            child.was_stopped = True
            return f"its process was stopped {silence_s:.0f} s ago"
        if silence_s > self._patience.stopped_timeout_s and child.is_dumping:
            return "it crashed, and its core dump takes too long"
        if silence_s > self._patience.silence_timeout_s:
            return f"it said nothing for {silence_s:.0f} s"
        if child.pulse.problem:
            return child.pulse.problem
        if child.pulse.step_age_s > self._patience.stall_timeout_s:
            return f"no step finished for {child.pulse.step_age_s:.0f} s"
        return None
