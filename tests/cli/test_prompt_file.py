"""Lines of prompts become requests, wrong ones too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pelton.cli.prompt_file import CHAT_PATH, COMPLETION_PATH, Line, make_result, read_lines
from pelton.errors import ConfigError

pytestmark = pytest.mark.unit


def read(path: Path, content: bytes, **more: Any) -> list[Line]:
    path.write_bytes(content)
    return read_lines(path, {"max_tokens": 7}, **more)


def test_a_text_file_has_a_prompt_in_each_line(tmp_path: Path) -> None:
    lines = read(tmp_path / "a.txt", b"one\r\n\n two \n\xff\n")
    assert [line.body.get("prompt") for line in lines] == ["one", " two ", None]
    assert [line.number for line in lines] == [0, 1, 2]
    assert lines[2].error == "line is not valid UTF-8 at byte 0."
    (chat, *_) = read(tmp_path / "a.txt", b"one", as_chat=True)
    assert (chat.path, chat.body["messages"]) == (CHAT_PATH, [{"role": "user", "content": "one"}])


@pytest.mark.parametrize(
    ("value", "path", "body"),
    [
        ("a", COMPLETION_PATH, {"prompt": "a", "max_tokens": 7}),
        ({"prompt": "a", "max_tokens": 2}, COMPLETION_PATH, {"prompt": "a", "max_tokens": 2}),
        ({"prompt_token_ids": [1]}, COMPLETION_PATH, {"prompt": [1], "max_tokens": 7}),
        ({"messages": [], "id": 5}, CHAT_PATH, {"messages": [], "max_tokens": 7}),
        ({"url": CHAT_PATH, "method": "POST", "body": {"messages": []}, "custom_id": "x"}, CHAT_PATH, {"messages": []}),
    ],
    ids=str,
)
def test_every_form_of_json_line(tmp_path: Path, value: Any, path: str, body: dict[str, Any]) -> None:
    (line,) = read(tmp_path / "a.jsonl", json.dumps(value).encode())
    assert (line.path, line.body, line.error) == (path, body, None)


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"{", "The line is not valid JSON"),
        (b"5", "expected a text or an object"),
        (b'{"prompt": "a", "stream": true}', "stream"),
        (b'{"url": "/v1/embeddings", "body": {}}', "'/v1/embeddings' cannot be run"),
        (b'{"url": "/v1/completions", "body": 5}', "an object as body"),
    ],
)
def test_a_wrong_line_has_its_error(tmp_path: Path, raw: bytes, words: str) -> None:
    (line,) = read(tmp_path / "a.jsonl", raw)
    assert words in str(line.error)


@pytest.mark.parametrize("name", ["a.csv", "missing.txt"])
def test_a_file_that_cannot_be_read(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="--input"):
        read_lines(tmp_path / name, {})


def test_results_have_the_form_of_their_line() -> None:
    choice = {"index": 0, "text": "x", "finish_reason": "stop"}
    body = {"choices": [choice], "usage": {"completion_tokens": 1}}
    assert make_result(Line(number=3, custom_id="c"), 200, body) == {
        "index": 3,
        "id": "c",
        "text": "x",
        "finish_reason": "stop",
        "usage": {"completion_tokens": 1},
    }
    many = make_result(Line(number=3), 200, {**body, "choices": [choice, choice]})
    assert many["choices"] == [choice, choice]
    assert make_result(Line(number=3), 400, {"error": {"message": "m"}}) == {"index": 3, "error": {"message": "m"}}
    batch = make_result(Line(number=3, custom_id="c", is_batch=True), 200, body)
    assert batch == {
        "id": "batch_req_3",
        "custom_id": "c",
        "response": {"status_code": 200, "request_id": "batch_req_3", "body": body},
        "error": None,
    }
