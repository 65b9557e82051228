"""Connections without a network: bytes come in pieces, late, or not at all, as a seed wants it."""

from __future__ import annotations

import asyncio
import random
from typing import Any

from tests.http_adversary.wire import Answer, read_answers

HIGH_WATER = 2000


class Wire(asyncio.Transport):
    """The server's end of a connection, and the client that holds the other."""

    def __init__(self, draw: random.Random, request: bytes) -> None:
        super().__init__()
        self.received = bytearray()  # by the client
        self.is_over = asyncio.Event()
        self.has_left = False
        self._draw = draw
        self._request = request
        self._unread = 0  # bytes that are under way to the client
        self._is_closing = False
        self._is_paused = asyncio.Event()
        self._is_paused.set()
        self._protocol: asyncio.Protocol | None = None

    async def live(self, protocol: asyncio.Protocol) -> None:
        """Connect, send the request, and read until the server closes, unless the client leaves before."""
        self._protocol = protocol
        protocol.connection_made(self)
        leaves_after_s = self._draw.choice([None, None, None, 0.0, 0.01, 0.1, 1.0])
        sending = asyncio.create_task(self._send())
        try:
            await asyncio.wait_for(self.is_over.wait(), leaves_after_s)
        except TimeoutError:
            self.has_left = True
            self._lose(self._draw.choice([None, ConnectionResetError("reset")]))
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)

    async def _send(self) -> None:
        assert self._protocol is not None, "connected before"
        rest = self._request
        while rest and not self._is_closing:
            size = self._draw.choice([1, 7, 50, 10_000])
            await asyncio.sleep(self._draw.choice([0.0, 0.0, 0.001, 0.05]))
            await self._is_paused.wait()
            if not self._is_closing:
                self._protocol.data_received(rest[:size])
            rest = rest[size:]

    def _lose(self, reason: Exception | None) -> None:
        if not self.is_over.is_set():
            assert self._protocol is not None, "connected before"
            self._is_closing = True
            self.is_over.set()
            self._protocol.connection_lost(reason)

    def write(self, data: Any) -> None:
        """Called by the server. The client reads it in its time; who reads slowly makes the server wait."""
        if self._is_closing or not data:
            return
        if self._unread <= HIGH_WATER < self._unread + len(data):
            assert self._protocol is not None, "connected before"
            self._protocol.pause_writing()
        self._unread += len(data)
        delay_s = self._draw.choice([0.0, 0.0, 0.002, 0.2])
        asyncio.get_running_loop().call_later(delay_s, self._read, len(data))
        self.received += data

    def _read(self, num_bytes: int) -> None:
        is_full = self._unread > HIGH_WATER
        self._unread -= num_bytes
        if is_full and self._unread <= HIGH_WATER and not self.is_over.is_set():
            assert self._protocol is not None, "connected before"
            self._protocol.resume_writing()

    def get_write_buffer_size(self) -> int:
        """Called by the server."""
        return self._unread

    def close(self) -> None:
        """Called by the server."""
        if not self._is_closing:
            self._is_closing = True
            asyncio.get_running_loop().call_soon(self._lose, None)

    def abort(self) -> None:
        """Called by the server."""
        self.close()

    def is_closing(self) -> bool:
        """Called by the server."""
        return self._is_closing

    def pause_reading(self) -> None:
        """Called by the server."""
        self._is_paused.clear()

    def resume_reading(self) -> None:
        """Called by the server."""
        self._is_paused.set()

    def get_extra_info(self, _name: str, default: Any = None) -> Any:
        """Called by the server: there is no socket."""
        return default

    @property
    def answers(self) -> list[Answer]:
        """What the client got. Raises EOFError if it is cut short."""
        return read_answers(bytes(self.received))
