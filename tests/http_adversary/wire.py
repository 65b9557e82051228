"""HTTP as bytes: send anything in any pieces, and read back what a server made of it."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

TIMEOUT_S = 20.0


@dataclass(frozen=True, slots=True)
class Answer:
    """One response: status, headers with small names, body."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        """The body's value."""
        return json.loads(self.body)


def post(path: str, body: bytes, *headers: str, content_type: str = "application/json") -> bytes:
    """The bytes of a POST that is as it should be, but for what `headers` add."""
    lines = [
        f"POST {path} HTTP/1.1", "host: a", f"content-type: {content_type}", f"content-length: {len(body)}", *headers
    ]  # fmt: skip
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def get(path: str, *headers: str, method: str = "GET") -> bytes:
    """The bytes of a request without a body."""
    return "\r\n".join([f"{method} {path} HTTP/1.1", "host: a", *headers]).encode() + b"\r\n\r\n"


async def connect(url: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection to the server at `url`."""
    parts = urlsplit(url)
    return await asyncio.open_connection(parts.hostname, parts.port)


async def exchange(
    url: str, *pieces: bytes, half_close: bool = False, pause_s: float = 0.0, timeout_s: float = TIMEOUT_S
) -> list[Answer]:
    """Send `pieces`, one at a time, and read until the server closes or is silent after an answer.

    With `half_close` the sending side is closed after the last piece. A reset by the server, or silence for
    `timeout_s`, ends the reading.
    """
    reader, writer = await connect(url)
    received = bytearray()
    try:
        with contextlib.suppress(ConnectionError, TimeoutError):
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(pause_s)
            if half_close:
                writer.write_eof()
            async with asyncio.timeout(timeout_s):
                while part := await reader.read(1 << 16):
                    received += part
                    if is_whole(received):
                        break
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
    return read_answers(bytes(received))


class Line:
    """A connection that is used for one request after the other, and made anew when the server closed it."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.connection: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, request: bytes) -> Answer:
        """The answer to `request`."""
        if self.connection is None:
            self.connection = await connect(self._url)
        reader, writer = self.connection
        writer.write(request)
        received = bytearray()
        async with asyncio.timeout(TIMEOUT_S):
            while not (received and is_whole(received)):
                part = await reader.read(1 << 20)
                if not part:
                    raise AssertionError(f"no answer to {request[:1000]!r}, only {bytes(received)!r}")
                received += part
        (answer,) = read_answers(bytes(received))
        if answer.headers.get("connection") == "close":
            await self.close()
        return answer

    async def close(self) -> None:
        """Give the connection back."""
        if self.connection is not None:
            self.connection[1].close()
            with contextlib.suppress(ConnectionError):
                await self.connection[1].wait_closed()
            self.connection = None


async def ask(url: str, request: bytes) -> Answer:
    """The only answer to one request."""
    answers = await exchange(url, request)
    if len(answers) != 1:
        raise AssertionError(f"{len(answers)} answers to {request[:200]!r}")
    return answers[0]


def is_whole(received: bytes | bytearray) -> bool:
    """Whether nothing of the last answer is missing."""
    try:
        return bool(read_answers(bytes(received)))
    except EOFError:
        return False


def read_answers(received: bytes) -> list[Answer]:
    """All answers in what a server sent; 1xx ones are left out. Raises EOFError if the last is cut short."""
    answers = []
    while received:
        head, separator, rest = received.partition(b"\r\n\r\n")
        if not separator:
            raise EOFError("a head is cut short")
        first, *lines = head.decode("latin-1").split("\r\n")
        version, status, *_ = first.split(" ", 2)
        if version != "HTTP/1.1":
            raise AssertionError(f"not an answer: {first!r}")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        if int(status) < 200:
            received = rest
            continue
        body, received = read_body(headers, rest)
        answers.append(Answer(int(status), headers, body))
    return answers


def read_body(headers: dict[str, str], rest: bytes) -> tuple[bytes, bytes]:
    """The body at the start of `rest`, and what follows."""
    if headers.get("transfer-encoding") == "chunked":
        return read_chunks(rest)
    size = int(headers.get("content-length", "0"))
    if len(rest) < size:
        raise EOFError("a body is cut short")
    return rest[:size], rest[size:]


def read_chunks(rest: bytes) -> tuple[bytes, bytes]:
    """The body of a chunked answer, and what follows."""
    parts: list[bytes] = []
    while True:
        size, separator, rest = rest.partition(b"\r\n")
        length = int(size, 16) if separator else -1
        if length < 0 or len(rest) < length + 2:
            raise EOFError("a chunk is cut short")
        parts.append(rest[:length])
        rest = rest[length + 2 :]
        if length == 0:
            return b"".join(parts), rest


def chunked(pieces: Sequence[bytes]) -> bytes:
    """The chunked form of a body."""
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces if piece) + b"0\r\n\r\n"
