"""Conversations that a chat template may be given: one of each kind that has gone wrong somewhere."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

_TOOL: Final[dict[str, Any]] = {
    "type": "function",
    "function": {
        "name": "add",
        "description": "Adds two numbers.",
        "parameters": {"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}}},
    },
}
_CALL: Final[dict[str, Any]] = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "add", "arguments": {"a": 1, "b": 2}},
}
_USER: Final = {"role": "user", "content": "What is 1 + 2?"}
_ANSWER: Final = {"role": "assistant", "content": "It is 3."}
_SYSTEM: Final = {"role": "system", "content": "You are terse."}
_CONTENTS: Final[tuple[Any, ...]] = (
    "",
    "line\n",
    "  spaces  ",
    "{{7*7}} {% raw %}",
    "<|im_start|>",
    None,
    [{"type": "text", "text": "in a part"}],
)


def list_conversations() -> Iterator[dict[str, Any]]:
    """Keyword arguments of `Chat.make_prompt`."""
    for is_open in (True, False):
        for before in ((), (_SYSTEM,)):
            yield {"messages": [*before, _USER], "add_generation_prompt": is_open}
            yield {"messages": [*before, _USER, _ANSWER, _USER], "add_generation_prompt": is_open}
            yield {"messages": [*before, _USER], "tools": [_TOOL], "add_generation_prompt": is_open}
            yield {"messages": [*before, _USER], "tools": [_TOOL, _TOOL], "add_generation_prompt": is_open}
        for content in _CONTENTS:
            yield {"messages": [{"role": "user", "content": content}], "add_generation_prompt": is_open}
        called = {"role": "assistant", "content": "", "tool_calls": [_CALL]}
        result = {"role": "tool", "tool_call_id": "call_1", "name": "add", "content": "3"}
        yield {"messages": [_USER, called, result], "tools": [_TOOL], "add_generation_prompt": is_open}
        yield {"messages": [_USER, {**_ANSWER, "reasoning_content": "1 and 2"}], "add_generation_prompt": is_open}
    for thinks in (True, False):
        yield {"messages": [_USER], "variables": {"enable_thinking": thinks}}
    yield {
        "messages": [_USER, {"role": "assistant", "content": "It"}],
        "continue_final_message": True,
        "add_generation_prompt": False,
    }
    yield {"messages": [_ANSWER]}
    yield {"messages": [{"role": "nobody", "content": "x"}]}
