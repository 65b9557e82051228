"""Keeps web pages away from a server that asks for no key: any page can make its reader's browser call 127.0.0.1.

Invariant: without a key, a request that a browser sends for a page is answered only if the page's origin is allowed
(`allowed_origins`) or is the server itself; and a server that only this machine reaches does not answer to names of the
internet, which their owner may point at 127.0.0.1 (DNS rebinding). With a key, pages have none, and this is not needed.
"""

from __future__ import annotations

import ipaddress
from typing import final
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Receive, Scope, Send

from pelton.errors import Forbidden
from pelton.server.error_answer import make_error_response


@final
class RefuseStrangers:
    """ASGI middleware for servers without a key."""

    def __init__(self, app: ASGIApp, *, host: str, allowed_origins: tuple[str, ...]) -> None:
        """`host` is what the server listens on."""
        self._app = app
        self._is_local = is_loopback(host)
        self._origins = frozenset(allowed_origins)
        self._names = frozenset(map(find_name, allowed_origins))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on or refuse; the body is not read."""
        headers = dict(scope.get("headers", ()))
        refusal = self._find_refusal(headers) if scope["type"] == "http" else None
        if refusal is None:
            await self._app(scope, receive, send)
        else:
            await make_error_response(Forbidden(refusal))(scope, receive, send)

    def _find_refusal(self, headers: dict[bytes, bytes]) -> str | None:
        if "*" in self._origins:
            return None
        host = headers.get(b"host", b"").decode("latin-1").lower()
        origin = headers.get(b"origin", b"").decode("latin-1").lower()
        name = find_name(f"//{host}")
        if self._is_local and is_public_name(name) and name not in self._names:
            return (
                f"host: {name[:128]!r} is not a name of this machine. To serve under it, start the server with "
                "--api-key, or name its origin with --allowed-origins."
            )
        if origin and origin not in self._origins and origin.partition("://")[2] != host:
            return (
                f"origin: web pages of {origin[:128]!r} may not call this server. Allow them with --allowed-origins, "
                "or start the server with --api-key."
            )
        return None


def find_name(url: str) -> str:
    """The host's name or address in a URL, or nothing.

    >>> find_name("http://a.example:80"), find_name("//[::1]:8000"), find_name("//[")
    ('a.example', '::1', '')
    """
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches `host`.

    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, True, False)
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def is_public_name(name: str) -> bool:
    """Whether `name` could belong to anybody on the internet: it has a dot, and is no address.

    >>> is_public_name("a.example"), is_public_name("localhost"), is_public_name("127.0.0.1"), is_public_name("::1")
    (True, False, False, False)
    """
    name = name.rstrip(".")
    if "." not in name or name.endswith(".localhost"):
        return False
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return True
    return False
