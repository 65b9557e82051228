"""Conversations as clients send them."""

from __future__ import annotations

from typing import Any

import pytest

from pelton.api.messages import MAX_MESSAGES, parse_messages, parse_tools
from pelton.errors import RequestError

pytestmark = pytest.mark.unit
CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}


def test_an_answer_can_be_sent_back_as_it_came() -> None:
    answer = {
        "role": "assistant",
        "content": "hi",
        "refusal": None,
        "annotations": [],
        "audio": None,
        "tool_calls": None,
    }
    assert parse_messages([answer]) == [{"role": "assistant", "content": "hi"}]


def test_arguments_of_calls_become_objects() -> None:
    (parsed,) = parse_messages([{"role": "assistant", "tool_calls": [CALL]}])
    assert parsed["content"] == ""
    assert parsed["tool_calls"] == [{"id": "c", "type": "function", "function": {"name": "f", "arguments": {}}}]


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ({"role": "user", "content": None}, "messages[0].content"),
        ({"role": "user", "content": 5}, "expected a text"),
        ({"role": "user", "content": [{"type": "text"}]}, "text part without a text"),
        ({"role": "user", "content": [5]}, "content[0]"),
        ({"role": "user", "content": "x", "name": 5}, "messages[0].name: expected a text, got int"),
        ({"role": "assistant", "content": "x", "audio": {"id": "a"}}, "messages[0].audio"),
        ({"role": "assistant", "tool_calls": "x"}, "tool_calls: expected a list"),
        ({"role": "assistant", "tool_calls": [{}]}, "function.name"),
        ({"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{"}}]}, "not JSON"),
        ({"role": ["user"], "content": "x"}, "is not a role"),
    ],
)
def test_what_is_wrong_is_named(message: dict[str, Any], words: str) -> None:
    with pytest.raises(RequestError) as caught:
        parse_messages([message])
    assert words in str(caught.value)
    assert caught.value.param == "messages"


@pytest.mark.parametrize("messages", [[], {}, "x", [{"role": "user", "content": "x"}] * (MAX_MESSAGES + 1)])
def test_the_list_itself_is_checked(messages: Any) -> None:
    with pytest.raises(RequestError, match="messages"):
        parse_messages(messages)


def test_tools_are_named_functions() -> None:
    assert parse_tools([{"function": {"name": "f"}}]) == [{"type": "function", "function": {"name": "f"}}]
    for wrong in ({}, {"function": {}}, {"type": "custom", "function": {"name": "f"}}, 5):
        with pytest.raises(RequestError, match=r"tools\[0\]"):
            parse_tools([wrong])
