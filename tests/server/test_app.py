"""The routes as a whole."""

from __future__ import annotations

import pytest
from tests.server.http import call

pytestmark = pytest.mark.unit


def test_unknown_paths_and_methods_have_openai_errors() -> None:
    for method, path, status in (
        ("GET", "/nothing", 404),
        ("DELETE", "/v1/completions", 405),
        ("POST", "/health", 405),
    ):
        response = call(method, path)
        assert response.status_code == status
        assert set(response.json()["error"]) == {"message", "type", "param", "code"}
        assert path in response.json()["error"]["message"]
