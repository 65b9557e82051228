"""Calls an ASGI application in memory: the server's handlers without a socket."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.types import ASGIApp, Message


async def call(app: ASGIApp, method: str, path: str, body: bytes) -> tuple[int, bytes]:
    """Status and body of the answer to one JSON request. Cancelling it is like a client that leaves."""
    scope: dict[str, Any] = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "scheme": "http",
        "headers": [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())],
    }
    request: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]
    status = 0
    parts: list[bytes] = []

    async def receive() -> Message:
        if request:
            return request.pop()
        return await asyncio.Future()  # the client stays until it is cancelled

    async def send(message: Message) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = message["status"]
        else:
            parts.append(message.get("body", b""))

    await app(scope, receive, send)
    return status, b"".join(parts)
