"""One engine process as the server sees it: its socket, what it said last, how it ended.

Messages are read by a protocol on the event loop, straight from the socket to `on_message`, and written without ever
blocking; what the socket does not take is kept, and `wait_until_writable` holds back those who would add more.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import final

from pelton.core.messages import (
    EngineFacts,
    Failed,
    FromEngine,
    MessageReader,
    Outputs,
    Progress,
    Pulse,
    Ready,
    ToEngine,
    encode_message,
)
from pelton.engine.process_state import read_is_dumping, read_state
from pelton.engine.started import Started
from pelton.errors import (
    BackendError,
    BadGrammar,
    CapacityError,
    CheckpointError,
    ConfigError,
    EngineError,
    InternalError,
    RequestError,
    TooLong,
    TransferError,
    UnknownModel,
)

logger = logging.getLogger(__name__)

ERRORS: dict[str, type[EngineError]] = {
    error.__name__: error
    for error in (
        BackendError, BadGrammar, CapacityError, CheckpointError, ConfigError, InternalError, RequestError, TooLong,
        TransferError, UnknownModel,
    )
}  # fmt: skip


@final
class Child(asyncio.Protocol):
    """Made by `adopt`. `lost` is done, with the reason, when the engine has ended or cannot be understood."""

    def __init__(self, process: subprocess.Popen[bytes], on_message: Callable[[FromEngine], None]) -> None:
        loop = asyncio.get_running_loop()
        self.pid = process.pid
        self.ready: asyncio.Future[EngineFacts] = loop.create_future()
        self.lost: asyncio.Future[EngineError] = loop.create_future()
        self.last_message_s = time.monotonic()
        self.pulse = Pulse(0.0)
        self.was_stopped = False  # somebody stopped the process, and it was ended for that
        self.has_given_output = False
        self._stage = ""
        self.is_unintelligible = False  # it sent what is no message, and was killed for it
        self._process = process
        self._kills_itself = False  # it was ended from here
        self._on_message = on_message
        self._reader: MessageReader[FromEngine] = MessageReader(FromEngine)  # type: ignore[arg-type]
        self._transport: asyncio.WriteTransport | None = None
        self._can_write = asyncio.Event()
        self._can_write.set()

    @staticmethod
    async def adopt(started: Started, on_message: Callable[[FromEngine], None]) -> Child:
        """Speak with a process that has been started."""
        loop = asyncio.get_running_loop()
        _, child = await loop.create_unix_connection(lambda: Child(started.process, on_message), sock=started.sock)
        return child

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport), "the socket can be written"
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self.last_message_s = time.monotonic()
        try:
            for message in self._reader.feed(data):
                self._take(message)
        except TransferError as error:
            self.is_unintelligible = not self.lost.done()
            self._lose(error)
            self.kill()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._can_write.set()
        self._lose(TransferError("the engine process closed its socket"))

    def pause_writing(self) -> None:
        self._can_write.clear()

    def resume_writing(self) -> None:
        self._can_write.set()

    def send(self, message: ToEngine) -> None:
        """Send a message. Nothing happens if the engine is gone: then its requests have been ended."""
        if self._transport is not None:
            self._transport.write(encode_message(message))

    async def wait_until_writable(self) -> None:
        """Wait while the engine takes messages more slowly than they come."""
        await self._can_write.wait()

    async def end(self, timeout_s: float) -> str:
        """Wait for the process to exit, kill it after `timeout_s`, and say how it ended. It is gone after this."""
        try:
            await asyncio.to_thread(self._process.wait, timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            await asyncio.to_thread(self._process.wait)
        if self._transport is not None:
            self._transport.abort()
        return describe_exit(self._process.returncode)

    @property
    def is_stopped(self) -> bool:
        """Whether somebody stopped the process (SIGSTOP, a debugger). Linux only; elsewhere its silence tells."""
        try:
            return read_state(Path(f"/proc/{self.pid}/stat")) in ("T", "t")
        except OSError:
            return False

    @property
    def is_dumping(self) -> bool:
        """Whether the process has crashed and writes a core dump, which takes as long as its memory is large."""
        try:
            return read_is_dumping(Path(f"/proc/{self.pid}/status"))
        except OSError:
            return False

    @property
    def was_killed(self) -> bool:
        """Whether a signal from outside ended it. True for the system's killer when memory is short, too."""
        return self._process.returncode in (-signal.SIGKILL, -signal.SIGTERM) and not self._kills_itself

    def kill(self) -> None:
        """End the process at once."""
        self._kills_itself = True
        self._process.kill()

    def _take(self, message: FromEngine) -> None:
        match message:
            case Failed(reason, error_class):
                self._lose(ERRORS.get(error_class, InternalError)(reason))
            case Ready(facts):
                if not self.ready.done():
                    self.ready.set_result(facts)
            case Pulse():
                self.pulse = message
            case Outputs(outputs):
                self.has_given_output = self.has_given_output or bool(outputs)
            case Progress(stage, fraction):
                is_next = stage != self._stage  # one line for each stage; who wants more watches a bar
                logger.log(logging.INFO if is_next else logging.DEBUG, "engine: %s, %.0f %%", stage, 100 * fraction)
                self._stage = stage
        self._on_message(message)

    def _lose(self, error: EngineError) -> None:
        if not self.lost.done():
            self.lost.set_result(error)


def describe_exit(return_code: int) -> str:
    """How a process ended, for people.

    >>> describe_exit(3)
    'exit code 3'
    >>> describe_exit(-9)
    'killed by SIGKILL, which is also what happens when the machine runs out of memory'
    """
    if return_code >= 0:
        return f"exit code {return_code}"
    hint = ", which is also what happens when the machine runs out of memory" if return_code == -signal.SIGKILL else ""
    return f"killed by {signal.Signals(-return_code).name}{hint}"
