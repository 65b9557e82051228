"""POST /tokenize and /detokenize."""

from __future__ import annotations

from typing import Any

import pytest
from tests.api.fakes import BOS
from tests.server.http import call

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("body", "tokens"),
    [
        ({"prompt": "ab"}, [BOS, 97, 98]),
        ({"prompt": "ab", "add_special_tokens": False}, [97, 98]),
        ({"messages": [{"role": "user", "content": "a"}], "model": "alias"}, list(b"[a]")),
    ],
)
def test_tokenize(body: dict[str, Any], tokens: list[int]) -> None:
    answer = call("POST", "/tokenize", json=body).json()
    assert answer == {"count": len(tokens), "max_model_len": 200, "tokens": tokens, "token_strs": None}


def test_spellings_and_the_way_back() -> None:
    answer = call("POST", "/tokenize", json={"prompt": "ab", "return_token_strs": True}).json()
    assert answer["token_strs"] == ["<bos>", "a", "b"]
    assert call("POST", "/detokenize", json={"tokens": [97, 98]}).json() == {"prompt": "ab"}
    long = call("POST", "/detokenize", json={"tokens": [97] * 50_000})
    assert long.json() == {"prompt": "a" * 50_000}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/tokenize", {}),
        ("/tokenize", {"prompt": "a", "messages": []}),
        ("/tokenize", {"prompt": 5}),
        ("/detokenize", {}),
        ("/detokenize", {"tokens": [-1]}),
        ("/detokenize", {"tokens": [258]}),
        ("/detokenize", {"tokens": [1.0]}),
        ("/detokenize", {"tokens": [2**63]}),
        ("/detokenize", {"tokens": "97"}),
    ],
    ids=str,
)
def test_refusals(path: str, body: dict[str, Any]) -> None:
    response = call("POST", path, json=body)
    assert response.status_code == 400, response.text
    assert response.json()["error"]["param"] in ("prompt", "tokens")
