"""Nobody gets past the key, whatever the path, the method, the host and the other headers say."""

from __future__ import annotations

import ast
import asyncio
import inspect
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.server.http import make_state

from pelton.server import auth, tenant
from pelton.server.app import ROUTES, make_app
from pelton.server.auth import OPEN_PATHS

pytestmark = pytest.mark.unit
KEY = "correct-horse"
STATE = make_state(api_key=KEY, docs_page=True)
APP = make_app(STATE)
PIECES = st.sampled_from(
    ["/", "//", "/.", "/..", ";", "?", "#", "%2f", "%2e", "\\", "\n", "\r", "\0", " ", "health", "HEALTH", "v1",
     "models", "config", "metrics", "@", ":80", "http://a", "docs", "\u2044", "~"]
)  # fmt: skip
PATHS = st.lists(PIECES, min_size=1, max_size=6).map("".join) | st.text(max_size=20) | st.sampled_from(
    [row.path for row in ROUTES if row.path not in OPEN_PATHS]
)  # fmt: skip
HOSTS = st.sampled_from([b"a", b"a/health?", b"a/health#", b"localhost", b"", b"/health", b"a:80/health?x="])
NAMES = st.sampled_from(
    [b"x-original-url", b"x-rewrite-url", b"x-forwarded-for", b"x-forwarded-prefix", b"x-http-method-override",
     b"x-api-key", b"api-key", b"cookie", b"proxy-authorization", b"forwarded"]
)  # fmt: skip
VALUES = st.sampled_from([b"/health", b"127.0.0.1", b"GET", b"", KEY.encode()[:-1], b"Bearer " + KEY.encode()])
WRONG = st.sampled_from(
    [b"", b"Bearer", b"Bearer ", b"Bearer  ", b"bearer " + KEY[:-1].encode(), b"Bearer " + KEY.encode() + b"\0",
     b"Bearer " + KEY.upper().encode(), b"Basic " + KEY.encode(), KEY.encode(), b"Bearer " + KEY.encode() * 2,
     b"Bearer Bearer " + KEY.encode(), b"Bearer,Bearer " + KEY.encode(), b"\xff" * 10, b"Bearer " + b"a" * 10_000]
)  # fmt: skip


def get_status(method: str, path: str, headers: list[tuple[bytes, bytes]], raw_path: bytes = b"/health") -> int:
    """The status of one request, straight from the application: no library between makes paths and headers decent."""
    scope: dict[str, Any] = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "path": path,
        "raw_path": raw_path, "query_string": b"", "root_path": "", "scheme": "http", "headers": headers,
        "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 2),
    }  # fmt: skip
    statuses: list[int] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    asyncio.run(APP(scope, receive, send))
    (status,) = statuses
    return status


@settings(max_examples=400, deadline=None)
@given(
    path=PATHS,
    host=HOSTS,
    method=st.sampled_from(["GET", "POST", "HEAD", "OPTIONS", "DELETE", "PUT", "get", "BREW"]),
    wrong=st.none() | WRONG,
    more=st.lists(st.tuples(NAMES, VALUES), max_size=3),
)
def test_no_trick_gets_past_the_key(
    path: str, host: bytes, method: str, wrong: bytes | None, more: list[tuple[bytes, bytes]]
) -> None:
    headers = [(b"host", host), *more] + ([(b"authorization", wrong)] if wrong is not None else [])
    assert get_status(method, path, headers) in ((400, 401) if path not in OPEN_PATHS else (200, 400, 405, 503))


def test_two_keys_are_none() -> None:
    right = (b"authorization", b"Bearer " + KEY.encode())
    assert get_status("GET", "/version", [(b"host", b"a"), right]) == 200
    assert get_status("GET", "/version", [(b"host", b"a"), right, (b"authorization", b"Bearer x")]) == 401
    assert get_status("GET", "/version", [(b"host", b"a"), (b"authorization", b"Bearer x"), right]) == 401


def test_keys_are_compared_in_constant_time() -> None:
    nodes = [node for module in (auth, tenant) for node in ast.walk(ast.parse(inspect.getsource(module)))]
    assert "hmac.compare_digest" in [ast.unparse(node.func) for node in nodes if isinstance(node, ast.Call)]
    equal = (ast.Eq, ast.NotEq)
    compares = [node for node in nodes if isinstance(node, ast.Compare) and isinstance(node.ops[0], equal)]
    compared = [ast.unparse(node) for node in compares]
    assert not [text for text in compared if "key" in text.lower() or "digest" in text.lower()]
