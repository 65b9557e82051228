"""The engine process's end of the socket: blocking writes, reads that wait only as long as they may.

A write that blocks is the back pressure: an engine whose server does not read stops making steps. The other side
never blocks, so the two cannot wait for each other.
"""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Iterator
from typing import final

from pelton.core.messages import FromEngine, MessageReader, ToEngine, encode_message
from pelton.errors import TransferError

READ_BYTES = 1 << 18
MAX_READS = 16  # at a time, so that a flood of messages cannot keep the engine from its steps


class ServerGone(TransferError):
    """The server's end of the socket is closed. The engine has nobody to work for."""


@final
class Channel:
    """Messages over a connected stream socket. Any thread may send; one receives."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(True)
        self._sock = sock
        self._sending = threading.Lock()
        self._reader: MessageReader[ToEngine] = MessageReader(ToEngine)  # type: ignore[arg-type]

    def send(self, message: FromEngine) -> None:
        """Send a message, waiting until the socket takes it. Raises ServerGone."""
        try:
            frame = encode_message(message)
            with self._sending:
                self._sock.sendall(frame)
        except (BrokenPipeError, ConnectionError) as error:
            raise ServerGone("engine socket: the server is gone.") from error

    def receive(self, timeout_s: float) -> Iterator[ToEngine]:
        """The messages that are there; waits at most `timeout_s` for the first bytes. Raises ServerGone."""
        for _ in range(MAX_READS):
            readable, _, _ = select.select([self._sock], [], [], timeout_s)
            if not readable:
                return
            try:
                data = self._sock.recv(READ_BYTES)
            except ConnectionError as error:
                raise ServerGone("engine socket: the server is gone.") from error
            if not data:
                raise ServerGone("engine socket: the server closed its end.")
            yield from self._reader.feed(data)
            timeout_s = 0.0
