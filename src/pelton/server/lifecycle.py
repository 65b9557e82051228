"""A server's life: listen, serve, and end without losing an answer.

The first SIGTERM or SIGINT stops taking requests (/ready says 503) and lets live ones run on for `shutdown_timeout_s`;
then what still runs ends with an error that says so. A second signal ends at once. So does an engine that will not come
back: its requests have got their errors, and whoever runs the server hears of it by the exit code.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from collections.abc import Callable, Iterator
from typing import final

import uvicorn

from pelton.errors import InternalError
from pelton.observability.log import Log
from pelton.server.app import make_app
from pelton.server.http_protocol import MAX_HEADER_BYTES, HttpProtocol
from pelton.server.listen import choose_max_connections, explain
from pelton.server.state import ServerState

log = Log("server")
SIGNALS = (signal.SIGTERM, signal.SIGINT)
KEEP_ALIVE_S = 75
FLUSH_TIMEOUT_S = 2.0  # for last events to leave after the engine aborted what ran too long
POLL_S = 0.02


@final
class _Uvicorn(uvicorn.Server):
    """uvicorn without its own signal handling: whether to drain is decided here."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Called by uvicorn."""
        yield


@final
class Server:
    """One server on a bound socket."""

    def __init__(
        self, state: ServerState, bound: socket.socket, *, on_ready: Callable[[], None] = lambda: None
    ) -> None:
        self._state = state
        self._bound = bound
        self._on_ready = on_ready
        self._draining: asyncio.Task[None] | None = None
        self._uvicorn = _Uvicorn(
            uvicorn.Config(
                make_app(state),
                http=HttpProtocol,
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                root_path=state.config.server.root_path,
                h11_max_incomplete_event_size=MAX_HEADER_BYTES,
                limit_concurrency=choose_max_connections(),
                timeout_keep_alive=KEEP_ALIVE_S,
                timeout_graceful_shutdown=max(1, int(FLUSH_TIMEOUT_S)),
            )
        )

    async def run(self) -> None:
        """Serve until a signal, or `stop`, has ended it.

        Raises ConfigError if the port was taken in the meantime, InternalError if the engine was lost for good.
        """
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            loop.add_signal_handler(number, self.stop)
        try:
            await self._serve()
        finally:
            for number in SIGNALS:
                loop.remove_signal_handler(number)

    async def _serve(self) -> None:
        host, port = self._bound.getsockname()[:2]
        try:
            self._bound.listen(self._uvicorn.config.backlog)
        except OSError as error:
            raise explain(error, host, port) from error
        serving = asyncio.create_task(self._uvicorn.serve(sockets=[self._bound]))
        while not self._uvicorn.started and not serving.done():
            await asyncio.sleep(POLL_S)
        if self._uvicorn.started:
            self._on_ready()
        lost = asyncio.create_task(self._end_when_lost())
        await serving
        if self._draining is not None:
            self._draining.cancel()
        if lost.done():
            raise InternalError(f"the server has ended, because it has no engine any more. {lost.result()}")
        lost.cancel()

    def stop(self) -> None:
        """What a signal does: the first call drains, the second ends the process's service at once."""
        if self._draining is not None:
            log.warning("second signal: ending at once", num_live=self._state.admission.num_live)
            self._uvicorn.force_exit = True
            self._uvicorn.should_exit = True
            for connection in list(self._uvicorn.server_state.connections):
                connection.transport.abort()
            return
        self._state.admission.is_draining = True
        self._draining = asyncio.get_running_loop().create_task(self._drain())

    async def _drain(self) -> None:
        timeout_s = self._state.config.server.shutdown_timeout_s
        admission = self._state.admission
        if admission.num_live:
            log.info(
                "shutting down after live requests; another signal ends them at once",
                num_live=admission.num_live,
                timeout_s=timeout_s,
            )
        if not await self._wait_until_idle(timeout_s):
            log.warning("live requests are ended", num_live=admission.num_live)
            await self._state.engine.parts.client.close()
            await self._wait_until_idle(FLUSH_TIMEOUT_S)
        self._uvicorn.should_exit = True

    async def _end_when_lost(self) -> str:
        reason = await self._state.engine.parts.client.wait_until_lost()
        log.error("the server ends: there is no engine any more", reason=reason)
        self._state.admission.is_draining = True
        await self._wait_until_idle(FLUSH_TIMEOUT_S)
        self._uvicorn.should_exit = True
        return reason

    async def _wait_until_idle(self, timeout_s: float) -> bool:
        try:
            async with asyncio.timeout(timeout_s):
                while self._state.admission.num_live:
                    await asyncio.sleep(POLL_S)
        except TimeoutError:
            return False
        return True
