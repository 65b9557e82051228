"""Who may use the server: with API keys, everything but the health route asks for one.

Invariant: a path is open only if it equals an open one, as the server received it; whatever else there is, or will be,
is guarded. Keys are compared by their hashes, in constant time (tenant.py).
"""

from __future__ import annotations

from typing import final

from starlette.types import ASGIApp, Receive, Scope, Send

from pelton.errors import Unauthorized
from pelton.server.error_answer import make_error_response
from pelton.server.request_record import current_record
from pelton.server.tenant import Keys

OPEN_PATHS = frozenset({"/health"})


@final
class RequireKey:
    """ASGI middleware that lets requests with `Authorization: Bearer KEY` through, as their key's tenant."""

    def __init__(self, app: ASGIApp, *, keys: Keys) -> None:
        self._app = app
        self._keys = keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on or refuse; the body is not read."""
        path = scope.get("path", "").removeprefix(scope.get("root_path", ""))  # --root-path is in front of every path
        tenant = None if scope["type"] == "lifespan" else self._find_tenant(scope)
        if scope["type"] == "lifespan" or path in OPEN_PATHS or tenant is not None:
            record = current_record()
            if record is not None and tenant is not None:
                record.tenant = tenant
            await self._app(scope, receive, send)
            return
        given = any(name == b"authorization" for name, _ in scope["headers"])
        message = (
            "The API key is wrong." if given else "The API key is missing. Send it as 'Authorization: Bearer KEY'."
        )
        await make_error_response(Unauthorized(message, code="invalid_api_key"))(scope, receive, send)

    def _find_tenant(self, scope: Scope) -> str | None:
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        scheme, _, key = (given[0] if len(given) == 1 else b"").partition(b" ")
        tenant = self._keys.find(key.strip())
        return tenant if scheme.lower() == b"bearer" else None
