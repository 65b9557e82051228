"""Who may use the server: with an API key, everything but the health route asks for it.

Invariant: a path is open only if it equals an open one, as the server received it; whatever else there is, or will be,
is guarded. Keys are compared by their hashes, in constant time (no length, no prefix leaks).
"""

from __future__ import annotations

import hashlib
import hmac
from typing import final

from starlette.types import ASGIApp, Receive, Scope, Send

from pelton.errors import Unauthorized
from pelton.server.error_answer import make_error_response

OPEN_PATHS = frozenset({"/health"})


@final
class RequireKey:
    """ASGI middleware that lets requests with `Authorization: Bearer KEY` through."""

    def __init__(self, app: ASGIApp, *, api_key: str) -> None:
        self._app = app
        self._digest = hashlib.sha256(api_key.encode()).digest()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on or refuse; the body is not read."""
        path = scope.get("path", "").removeprefix(scope.get("root_path", ""))  # --root-path is in front of every path
        if scope["type"] == "lifespan" or path in OPEN_PATHS or self._is_allowed(scope):
            await self._app(scope, receive, send)
            return
        given = any(name == b"authorization" for name, _ in scope["headers"])
        message = (
            "The API key is wrong." if given else "The API key is missing. Send it as 'Authorization: Bearer KEY'."
        )
        await make_error_response(Unauthorized(message, code="invalid_api_key"))(scope, receive, send)

    def _is_allowed(self, scope: Scope) -> bool:
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        scheme, _, key = (given[0] if len(given) == 1 else b"").partition(b" ")
        is_same = hmac.compare_digest(hashlib.sha256(key.strip()).digest(), self._digest)
        return is_same and scheme.lower() == b"bearer"
