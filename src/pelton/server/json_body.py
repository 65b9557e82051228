"""Bytes of a request body to plain values: bounded while they are read, strict when they are decoded.

Invariant: no more than `max_bytes` of a body are kept, nesting is at most MAX_DEPTH, and NaN, infinities, lone
surrogates and bytes that are not UTF-8 never get past here. Messages say where in the body it went wrong.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec
from starlette.requests import ClientDisconnect, Request

from pelton.errors import BodyTooLarge, BodyTooSlow, RequestError, WrongContentType

MAX_DEPTH = 64
READ_TIMEOUT_S = 60.0
FIRST_BYTES_S = 10.0  # until a body must have begun to come at MIN_BYTES_PER_S
MIN_BYTES_PER_S = 1024
DISCARD_TIMEOUT_S = 2.0


async def read_body(
    request: Request, max_bytes: int, *, on_bytes: Callable[[int], None] = lambda num_bytes: None
) -> bytes:
    """The whole body. Raises BodyTooLarge as soon as it is known to be too large, BodyTooSlow, ClientDisconnect.

    `on_bytes` hears of how many bytes are there, and may raise if those are too many.
    """
    content_type = request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
    if content_type != "application/json" and not content_type.endswith("+json"):
        raise WrongContentType(f"content-type: {content_type!r} cannot be read, expected application/json.")
    declared = request.headers.get("content-length", "")
    try:
        if declared.isdecimal() and int(declared) > max_bytes:
            await _discard(request, max_bytes)
            raise _too_large(f"{declared} bytes", max_bytes)
        start_s = asyncio.get_running_loop().time()
        async with asyncio.timeout(min(READ_TIMEOUT_S, FIRST_BYTES_S)) as timeout:
            parts: list[bytes] = []
            num_bytes = 0
            async for part in request.stream():
                num_bytes += len(part)
                if num_bytes > max_bytes:
                    raise _too_large(f"more than {max_bytes} bytes", max_bytes)
                on_bytes(num_bytes)
                parts.append(part)
                timeout.reschedule(start_s + min(READ_TIMEOUT_S, FIRST_BYTES_S + num_bytes / MIN_BYTES_PER_S))
    except TimeoutError as error:
        raise BodyTooSlow(
            f"The body did not arrive in time: {FIRST_BYTES_S:.0f} s and one more for each {MIN_BYTES_PER_S} bytes, at "
            f"most {READ_TIMEOUT_S:.0f} s."
        ) from error
    return b"".join(parts)


async def _discard(request: Request, max_bytes: int) -> None:
    """Read and drop a body that is somewhat too large: most clients look for the answer only after they sent it all."""
    if request.headers.get("expect", "").lower() == "100-continue":
        return
    dropped = 0
    try:
        async with asyncio.timeout(DISCARD_TIMEOUT_S):
            async for part in request.stream():
                dropped += len(part)
                if dropped > 4 * max_bytes:
                    return
    except (TimeoutError, ClientDisconnect):
        return


def _too_large(size: str, max_bytes: int) -> BodyTooLarge:
    return BodyTooLarge(
        f"The body has {size}, at most {max_bytes} are taken. Send less, or start the server with a larger "
        "--max-body-bytes."
    )


def decode_json(body: bytes) -> Any:
    """The value that `body` spells. Raises RequestError with the position of what is wrong."""
    try:
        body.decode()
    except UnicodeDecodeError as error:
        raise RequestError(
            f"The body is not valid UTF-8: byte 0x{body[error.start]:02x} at position {error.start}.",
            code="invalid_utf8",
        ) from error
    try:
        value = msgspec.json.decode(body)
    except RecursionError as error:
        raise _too_deep() from error
    except msgspec.DecodeError as error:
        raise RequestError(f"The body is not valid JSON: {_describe(body, error)}.", code="invalid_json") from error
    if is_deeper_than(value, MAX_DEPTH):
        raise _too_deep()
    return value


def _describe(body: bytes, error: msgspec.DecodeError) -> str:
    message = str(error).removeprefix("JSON is malformed: ")
    if not body:
        return "it is empty"
    if message.startswith("Input data was truncated"):
        try:
            json.loads(body)
        except (ValueError, RecursionError):  # each decoder has its own idea of too deep
            return f"it ends too early, after {len(body)} bytes"
        return "a text holds half of a surrogate pair (such as \\ud83d alone)"
    return message


def _too_deep() -> RequestError:
    return RequestError(f"The body is nested deeper than {MAX_DEPTH} levels.", code="invalid_json")


def is_deeper_than(value: Any, max_depth: int) -> bool:
    """Whether lists and objects in `value` are nested in more than `max_depth` levels. Linear, no recursion.

    >>> is_deeper_than([[1]], 1), is_deeper_than([[1]], 2)
    (True, False)
    """
    level = deque([value])
    for _ in range(max_depth + 1):
        below: deque[Any] = deque()
        for item in level:
            if isinstance(item, dict):
                below.extend(v for v in item.values() if isinstance(v, (dict, list)))
            elif isinstance(item, list):
                below.extend(v for v in item if isinstance(v, (dict, list)))
        if not below:
            return bool(level) and _ == max_depth and isinstance(level[0], (dict, list))
        level = below
    return True
