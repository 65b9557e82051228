"""Every kind of conversation is in the matrix."""

from __future__ import annotations

import pytest

from pelton.verification.conversations import list_conversations

pytestmark = pytest.mark.unit


def test_the_matrix_has_everything_in_it() -> None:
    conversations = list(list_conversations())
    roles = {message["role"] for each in conversations for message in each["messages"]}
    assert roles == {"system", "user", "assistant", "tool", "nobody"}
    contents = [message["content"] for each in conversations for message in each["messages"]]
    assert {type(content) for content in contents} == {str, type(None), list}
    assert {len(each.get("tools", ())) for each in conversations} == {0, 1, 2}
    assert {each.get("add_generation_prompt") for each in conversations} == {True, False, None}
    assert any(each.get("continue_final_message") for each in conversations)
    assert any("tool_calls" in message for each in conversations for message in each["messages"])
