"""A client that asks once, over a connection of its own, and writes down all that it sees."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from tests.soak.ask import TENANTS, Ask

TIMEOUT_S: Final = 120.0
DAWDLE_S: Final = 0.1  # between the reads of a client that dawdles


@dataclass(slots=True)
class History:
    """One request as its client saw it. Times are of the monotonic clock."""

    ask: Ask
    start_s: float = 0.0
    end_s: float = 0.0
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    texts: dict[int, str] = field(default_factory=dict)
    reasons: dict[int, list[str]] = field(default_factory=dict)
    usage: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    num_dones: int = 0
    has_left: bool = False  # by its own will
    broken: str = ""  # the connection failed, or said what is no answer
    token_times_s: list[float] = field(default_factory=list)


async def ask_once(
    host: str, port: int, ask: Ask, on_start: Callable[[History], None] = lambda history: None
) -> History:
    """Ask, and read to the end or leave, as the manner of `ask` is. `on_start` gets the history while it is made."""
    history = History(ask, start_s=time.monotonic())
    on_start(history)
    try:
        async with asyncio.timeout(TIMEOUT_S):
            await _converse(host, port, history)
    except TimeoutError:
        history.broken = f"no end within {TIMEOUT_S:.0f} s"
    except (OSError, asyncio.IncompleteReadError, ValueError, KeyError) as error:
        history.broken = f"{type(error).__name__}: {error}"
    history.end_s = time.monotonic()
    return history


async def _converse(host: str, port: int, history: History) -> None:
    ask = history.ask
    limit = 1 << 10 if ask.manner == "dawdles" else 1 << 18
    reader, writer = await asyncio.open_connection(host, port, limit=limit)
    try:
        body = json.dumps(ask.make_body()).encode()
        head = (
            f"POST /v1/completions HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n"
            f"authorization: Bearer {TENANTS[ask.tenant]}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n"
        )
        if ask.timeout_ms:
            head += f"x-request-timeout-ms: {ask.timeout_ms}\r\n"
        writer.write(head.encode() + b"\r\n" + body)
        await writer.drain()
        if ask.manner == "leaves" and (not ask.stream or ask.leaves_after == 0):
            await asyncio.sleep(0.01 * ask.leaves_after)
            history.has_left = True
            return
        await _read_head(reader, history)
        if history.headers.get("transfer-encoding") == "chunked":
            await _read_stream(reader, history)
        else:
            _take_whole(json.loads(await reader.readexactly(int(history.headers["content-length"]))), history)
    finally:
        writer.transport.abort()


async def _read_head(reader: asyncio.StreamReader, history: History) -> None:
    status, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    history.status = int(status.split(" ")[1])
    history.headers = {
        name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)
    }


async def _read_stream(reader: asyncio.StreamReader, history: History) -> None:
    rest, num_chunks = b"", 0
    while True:
        size = int(await reader.readline(), 16)
        if history.ask.manner == "dawdles":
            await asyncio.sleep(DAWDLE_S)
        data = await reader.readexactly(size + 2)
        if size == 0:
            break
        *events, rest = (rest + data[:-2]).split(b"\n\n")
        for event in events:
            _take_event(event, history)
            num_chunks += 1
        if history.ask.manner == "leaves" and num_chunks >= history.ask.leaves_after:
            history.has_left = True
            return


def _take_event(event: bytes, history: History) -> None:
    if not event.startswith(b"data: "):
        if not event.startswith(b":"):
            raise ValueError(f"{event[:60]!r} is no event")
        return
    if event == b"data: [DONE]":
        history.num_dones += 1
        return
    said = json.loads(event[6:])
    if "error" in said:
        history.error = said["error"]
        return
    for choice in said["choices"]:
        _take_choice(choice, history)
    if said.get("usage") is not None:
        history.usage = said["usage"]


def _take_whole(said: dict[str, Any], history: History) -> None:
    if "error" in said:
        history.error = said["error"]
        return
    for choice in said["choices"]:
        _take_choice(choice, history)
    history.usage = said["usage"]
    history.num_dones = 1


def _take_choice(choice: dict[str, Any], history: History) -> None:
    index = choice["index"]
    if choice["text"]:
        history.token_times_s.append(time.monotonic())
    history.texts[index] = history.texts.get(index, "") + choice["text"]
    if choice["finish_reason"] is not None:
        history.reasons.setdefault(index, []).append(choice["finish_reason"])
