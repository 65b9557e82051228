"""What the engine process does: hear Hello, load, say Ready, then read messages between steps until the server ends it.

Without work it sleeps on the socket and sends a heartbeat every `heartbeat_s`; with work it looks at the socket
between steps and does not wait. A thread of its own (pulse.py) says how the step is doing, so the server soon knows
when one hangs. A step that raises ends the process: what is in the cache is then unknown, and the server has the rest.

The process belongs to the server: it ignores SIGINT and SIGTERM (the server decides), and ends when the server's end
of the socket closes, even from the middle of a step or while loading; the kernel ends it if it cannot do so itself
(parent_death.py): a killed server leaves nothing behind.
"""

from __future__ import annotations

import logging
import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from typing import NoReturn, final

from pelton.core.messages import (
    Abort,
    Add,
    Drain,
    EngineFacts,
    Failed,
    Hello,
    ListPrefixes,
    Outputs,
    PinPrefix,
    Progress,
    Ready,
    ReleasePrefix,
    Shutdown,
    ToEngine,
    Working,
)
from pelton.core.outputs import RequestOutput
from pelton.core.step import RequestId, SchedulerOutput
from pelton.engine.channel import Channel, ServerGone
from pelton.engine.loop import EngineLoop
from pelton.engine.parent_death import end_with_parent
from pelton.engine.pulse import start_pulse
from pelton.errors import EngineError, InternalError, TransferError

logger = logging.getLogger(__name__)

HELLO_TIMEOUT_S = 30.0
ORPHAN_GRACE_S = 1.0  # for the main thread to end by itself once the server is gone

Report = Callable[[str, float], None]  # stage, fraction
MakeEngine = Callable[[bytes, Report], tuple[EngineLoop, EngineFacts]]  # from the configuration in Hello


def run_engine(sock: socket.socket, make_engine: MakeEngine, heartbeat_s: float = 1.0) -> int:
    """Be the engine process on `sock`. Returns its exit code; whatever goes wrong has been told to the server."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    end_with_parent()
    threading.Thread(target=exit_with_server, args=(sock,), name="exit-with-server", daemon=True).start()
    channel = Channel(sock)
    engine: EngineLoop | None = None
    try:
        hello = receive_hello(channel)
        engine, facts = make_engine(hello.config, lambda stage, fraction: channel.send(Progress(stage, fraction)))
        channel.send(Ready(facts))
        start_pulse(engine, channel.send)
        serve(channel, engine, heartbeat_s)
    except ServerGone:
        return 0
    except Exception as error:  # noqa: BLE001  the border of the engine process: the server must hear of everything
        return fail(channel, error)
    finally:
        if engine is not None:
            engine.close()
    return 0


def receive_hello(channel: Channel) -> Hello:
    """The first message. Raises TransferError if it does not come, or is another."""
    for message in channel.receive(HELLO_TIMEOUT_S):
        if isinstance(message, Hello):
            return message
        raise TransferError(f"engine socket: the first message is {type(message).__name__}, expected Hello.")
    raise TransferError(f"engine socket: no Hello within {HELLO_TIMEOUT_S:.0f} s.")


def serve(channel: Channel, engine: EngineLoop, heartbeat_s: float) -> None:
    """Make steps while there is work. Returns on Shutdown; raises InternalError once the engine is broken."""
    last_sent_s = 0.0
    announcer = Announcer(channel)
    engine.on_step = announcer.announce
    is_asked_to_end = False
    while not is_asked_to_end:
        for message in channel.receive(0.0 if engine.has_work else heartbeat_s):
            is_asked_to_end = isinstance(message, Shutdown)
            if is_asked_to_end:
                engine.abort_all()
                break
            if isinstance(message, Add):
                announcer.announce_added(message.request.request_id)
            apply_message(engine, message)
        for answer in engine.take_answers():
            channel.send(answer)
        outputs = step_or_break(engine)
        if engine.broken is not None:
            raise InternalError(engine.broken)  # the server still has the requests, and gives them to the next engine
        now_s = time.monotonic()
        if outputs or now_s - last_sent_s >= heartbeat_s:
            channel.send(Outputs(tuple(outputs), engine.stats()))
            last_sent_s = now_s


@final
class Announcer:
    """Tells the server whose tokens the next step computes, whenever that changes: if it fails, they are suspects."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._last: tuple[RequestId, ...] = ()

    def announce(self, step: SchedulerOutput) -> None:
        """Called before every step."""
        self._announce(tuple(part.request_id for part in step.scheduled))

    def announce_added(self, request_id: RequestId) -> None:
        """Called before a request is added, which is the first chance it has to do harm."""
        self._announce((request_id,))

    def _announce(self, request_ids: tuple[RequestId, ...]) -> None:
        if request_ids != self._last:
            self._last = request_ids
            self._channel.send(Working(request_ids))


def apply_message(engine: EngineLoop, message: ToEngine) -> None:
    """Do what a message says. Raises TransferError on one that has no place after Hello."""
    match message:
        case Add(request):
            engine.add(request)
        case Abort(request_id):
            engine.abort(request_id)
        case Drain():
            engine.drain()
        case PinPrefix() | ListPrefixes() | ReleasePrefix():
            engine.ask(message)
        case _:
            raise TransferError(f"engine socket: {type(message).__name__} is out of place here.")


def step_or_break(engine: EngineLoop) -> list[RequestOutput]:
    """The outputs of one step. If it raises, they are the errors of its requests, and the engine is broken."""
    try:
        return engine.step()
    except Exception:  # the worker's border: whatever a step raises ends its requests
        logger.exception("the engine is broken: %s", engine.broken)
        return engine.step()


def fail(channel: Channel, error: Exception) -> int:
    """Tell the server why the engine ends; the exit code that says the same."""
    is_ours = isinstance(error, EngineError)
    reason = str(error) if is_ours else f"{type(error).__name__}: {error}"
    logger.error("the engine ends: %s", reason, exc_info=None if is_ours else error)
    error_class = type(error).__name__ if is_ours else InternalError.__name__
    try:
        channel.send(Failed(reason, error_class))
    except TransferError:
        logger.error("the server could not be told")
    return error.exit_code if isinstance(error, EngineError) else InternalError.exit_code


def exit_with_server(sock: socket.socket) -> NoReturn:
    """Wait for the server's end of the socket to close, give the main thread a moment, and end the process."""
    poll = select.poll()
    poll.register(sock.fileno(), select.POLLRDHUP if sys.platform == "linux" else 0)
    poll.poll()
    time.sleep(ORPHAN_GRACE_S)
    os._exit(0)
