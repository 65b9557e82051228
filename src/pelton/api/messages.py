"""A conversation as clients send it, checked and brought into the form that chat templates read.

Invariant: what comes out has known roles and keys, and content that is one text; a part that this engine cannot use
(an image, a sound) is refused by name, never dropped. Texts of a message are joined by a line break, as the field does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from pelton.errors import RequestError, nearest

ROLES = ("system", "developer", "user", "assistant", "tool")
KEYS = ("role", "content", "name", "tool_calls", "tool_call_id", "reasoning", "reasoning_content")
IGNORED_KEYS = ("refusal", "annotations", "audio", "function_call")  # clients send answers back whole; these are null
MAX_MESSAGES = 4096


def parse_messages(messages: Sequence[Any]) -> list[dict[str, Any]]:
    """The conversation for a template. Raises RequestError that names the message and the key.

    >>> parse_messages([{"role": "user", "content": [{"type": "text", "text": "hi"}]}])
    [{'role': 'user', 'content': 'hi'}]
    """
    if isinstance(messages, (str, Mapping)) or not messages:
        raise RequestError("messages: give a list with at least one message.", param="messages")
    if len(messages) > MAX_MESSAGES:
        raise RequestError(f"messages: {len(messages)} messages, at most {MAX_MESSAGES} are taken.", param="messages")
    return [_parse_message(message, f"messages[{i}]") for i, message in enumerate(messages)]


def _parse_message(message: Any, where: str) -> dict[str, Any]:
    if not isinstance(message, Mapping):
        raise _wrong(where, f"{type(message).__name__} is not a message, expected an object with role and content")
    for key, value in message.items():
        if key not in KEYS and not (key in IGNORED_KEYS and not value):
            if key in IGNORED_KEYS:
                raise _wrong(f"{where}.{key}", "this engine cannot use it; leave it out or send null")
            raise _wrong(where, f"{key!r} is not a known key. {nearest(str(key), KEYS)}")
    role = message.get("role")
    if role not in ROLES:
        raise _wrong(f"{where}.role", f"{role!r} is not a role. Known: {', '.join(ROLES)}")
    parsed: dict[str, Any] = {"role": "system" if role == "developer" else role}
    for key in ("name", "tool_call_id", "reasoning", "reasoning_content"):
        if message.get(key) is not None:
            parsed[key] = _text(message[key], f"{where}.{key}")
    if message.get("tool_calls"):
        parsed["tool_calls"] = _parse_tool_calls(message["tool_calls"], f"{where}.tool_calls")
    parsed["content"] = _parse_content(message.get("content"), where, may_be_empty="tool_calls" in parsed)
    return parsed


def _parse_content(content: Any, where: str, *, may_be_empty: bool) -> str:
    if content is None and may_be_empty:
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, Sequence):
        raise _wrong(f"{where}.content", "expected a text or a list of text parts")
    texts = []
    for i, part in enumerate(content):
        if isinstance(part, str):
            texts.append(part)
            continue
        kind = part.get("type") if isinstance(part, Mapping) else None
        if not isinstance(part, Mapping) or kind != "text" or not isinstance(part.get("text"), str):
            what = f"a part of type {kind!r}" if kind != "text" else "a text part without a text"
            raise _wrong(f"{where}.content[{i}]", f"{what} cannot be used: this model reads text only")
        texts.append(part["text"])
    return "\n".join(texts)


def _parse_tool_calls(calls: Any, where: str) -> list[dict[str, Any]]:
    if not isinstance(calls, Sequence) or isinstance(calls, str):
        raise _wrong(where, "expected a list")
    return [_parse_tool_call(call, f"{where}[{i}]") for i, call in enumerate(calls)]


def _parse_tool_call(call: Any, where: str) -> dict[str, Any]:
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        raise _wrong(where, "expected an object with function.name")
    arguments = function.get("arguments", {})
    if isinstance(arguments, str):
        try:
            arguments = msgspec.json.decode(arguments) if arguments else {}
        except (msgspec.MsgspecError, RecursionError, UnicodeEncodeError) as error:
            raise _wrong(f"{where}.function.arguments", f"not JSON: {error}") from error
    parsed = {"type": "function", "function": {"name": function["name"], "arguments": arguments}}
    return {"id": _text(call["id"], f"{where}.id"), **parsed} if call.get("id") is not None else parsed


def parse_tools(tools: Any) -> list[dict[str, Any]]:
    """Tool definitions for a template. Raises RequestError where one is not a named function."""
    parsed = []
    for i, tool in enumerate(tools):
        function = tool.get("function") if isinstance(tool, Mapping) else None
        if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
            raise RequestError(f"tools[{i}]: expected an object with function.name.", param="tools")
        if tool.get("type", "function") != "function":
            raise RequestError(f"tools[{i}].type: {tool['type']!r} is not known. Known: function.", param="tools")
        parsed.append({"type": "function", "function": dict(function)})
    return parsed


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise _wrong(where, f"expected a text, got {type(value).__name__}")
    return value


def _wrong(where: str, what: str) -> RequestError:
    return RequestError(f"{where}: {what.removesuffix('.')}.", param="messages")
