"""Web pages cannot use a server without a key through their reader's browser, whatever name they give it."""

from __future__ import annotations

from typing import Any

import pytest
from tests.server.http import call, make_state

pytestmark = pytest.mark.unit
ROUTES = [
    ("GET", "/config"),
    ("POST", "/v1/completions"),
    ("DELETE", "/v1/prefixes/a"),
    ("PUT", "/x"),
    ("OPTIONS", "/"),
]


def status(method: str, path: str, name: str, origin: str | None = None, **settings: Any) -> int:
    headers = {"host": name} | ({} if origin is None else {"origin": origin})
    return int(call(method, path, state=make_state(**settings), headers=headers, json={"prompt": "a"}).status_code)


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_names_of_the_internet_are_no_names_of_this_machine(method: str, path: str) -> None:
    for host in (
        "evil.example",
        "evil.example:8000",
        "EVIL.example.",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
    ):
        assert status(method, path, host) == 403, host
        assert status(method, path, host, host="0.0.0.0") != 403, "others reach this one by any name"
    for host in ("localhost:8000", "127.0.0.1:8000", "[::1]:8000", "api.localhost", "box", ""):
        assert status(method, path, host) != 403, host


@pytest.mark.parametrize(("method", "path"), ROUTES)
@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_pages_of_others_are_refused(method: str, path: str, host: str) -> None:
    for origin in (
        "http://evil.example",
        "null",
        "http://127.0.0.1:9000",
        "http://[",
        "file://",
        "a",
        "http://box:80@evil",
    ):
        assert status(method, path, "box:8000", origin, host=host) == 403, origin
    assert status(method, path, "box:8000", "http://box:8000", host=host) != 403, "a page of the server itself"


def test_origins_that_are_allowed_bring_their_name_along() -> None:
    allowed = {"allowed_origins": ("https://chat.example",)}
    assert status("GET", "/config", "chat.example", "https://chat.example", **allowed) == 200
    assert status("GET", "/config", "chat.example", **allowed) == 200
    assert status("GET", "/config", "chat.example", "https://other.example", **allowed) == 403
    assert status("GET", "/config", "any.example", "https://other.example", allowed_origins=("*",)) == 200


def test_with_a_key_names_do_not_matter() -> None:
    assert status("GET", "/config", "evil.example", "https://evil.example", api_key="k") == 401
    assert status("GET", "/health", "evil.example", api_key="k") == 200
