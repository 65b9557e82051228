"""Lines of prompts as requests of the API, and their answers as lines.

A line that cannot be read becomes a `Line` with an error: it gets its answer like all others, and stops none.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pelton.errors import ConfigError, RequestError
from pelton.server.json_body import decode_json

CHAT_PATH, COMPLETION_PATH = "/v1/chat/completions", "/v1/completions"
BATCH_KEYS = {"custom_id", "method", "url", "body"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of the input: the request it asks for, or why it asks for none."""

    number: int  # from 0, blank lines not counted
    path: str = COMPLETION_PATH
    body: dict[str, Any] = field(default_factory=dict)
    custom_id: str | None = None
    is_batch: bool = False  # OpenAI's batch format, which is answered in its own form
    error: str | None = None


def read_lines(path: Path, fields: dict[str, Any], *, as_chat: bool = False) -> list[Line]:
    """The lines of a .txt or .jsonl file. `fields` are for lines that do not say otherwise. Raises ConfigError."""
    if path.suffix not in (".txt", ".jsonl"):
        raise ConfigError(f"--input: {path} is neither a .txt nor a .jsonl file.")
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"--input: {path} cannot be read: {error.strerror}.") from error
    texts = [text for text in raw.split(b"\n") if text.strip()]
    parse = parse_json if path.suffix == ".jsonl" else parse_text
    return [parse(number, text.rstrip(b"\r"), fields, as_chat) for number, text in enumerate(texts)]


def parse_text(number: int, raw: bytes, fields: dict[str, Any], as_chat: bool) -> Line:
    """A line of a .txt file: all of it is the prompt."""
    try:
        return make_line(number, {"prompt": raw.decode()}, fields, as_chat)
    except UnicodeDecodeError as error:
        return Line(number=number, error=f"line is not valid UTF-8 at byte {error.start}.")


def parse_json(number: int, raw: bytes, fields: dict[str, Any], as_chat: bool) -> Line:
    """A line of a .jsonl file: a text, an object of fields, or a request of the batch format."""
    try:
        value = decode_json(raw)
    except RequestError as error:
        return Line(number=number, error=str(error).replace("The body", "The line"))
    if isinstance(value, str):
        value = {"prompt": value}
    if not isinstance(value, dict):
        return Line(number=number, error="expected a text or an object.")
    if value.keys() <= BATCH_KEYS and "body" in value:
        return parse_batch(number, value)
    return make_line(number, value, fields, as_chat)


def parse_batch(number: int, value: dict[str, Any]) -> Line:
    """A request of OpenAI's batch format."""
    url, body, custom_id = value.get("url"), value["body"], value.get("custom_id")
    error = None
    if url not in (CHAT_PATH, COMPLETION_PATH):
        error = f"url: {url!r} cannot be run. Known: {CHAT_PATH}, {COMPLETION_PATH}."
    elif value.get("method", "POST") != "POST" or not isinstance(body, dict):
        error = "expected the method POST and an object as body."
    elif body.get("stream"):
        error = "stream: not in a file."
    return Line(
        number=number,
        path=str(url),
        body=body if isinstance(body, dict) else {},
        custom_id=None if custom_id is None else str(custom_id),
        is_batch=True,
        error=error,
    )


def make_line(number: int, value: dict[str, Any], fields: dict[str, Any], as_chat: bool) -> Line:
    """A line of fields; "id" is the line's own and is given back."""
    body = {**fields, **value}
    custom_id = body.pop("id", None)
    if as_chat and isinstance(body.get("prompt"), str) and "messages" not in body:
        body["messages"] = [{"role": "user", "content": body.pop("prompt")}]
    if "prompt_token_ids" in body:
        body["prompt"] = body.pop("prompt_token_ids")
    return Line(
        number=number,
        path=CHAT_PATH if "messages" in body else COMPLETION_PATH,
        body=body,
        custom_id=None if custom_id is None else str(custom_id),
        error="stream: not in a file." if body.get("stream") else None,
    )


def make_result(line: Line, status: int, body: dict[str, Any]) -> dict[str, Any]:
    """The answer to a line, in the batch format if the line was in it."""
    error = body.get("error")
    if line.is_batch:
        request_id = f"batch_req_{line.number}"
        response = {"status_code": status, "request_id": request_id, "body": body}
        return {"id": request_id, "custom_id": line.custom_id, "response": response, "error": error}
    result: dict[str, Any] = {"index": line.number}
    if line.custom_id is not None:
        result["id"] = line.custom_id
    if error is not None:
        return {**result, "error": error}
    choices = body["choices"]
    texts = [choice["text"] if "text" in choice else choice["message"]["content"] for choice in choices]
    result |= {"text": texts[0], "finish_reason": choices[0]["finish_reason"], "usage": body["usage"]}
    return result if len(choices) == 1 else {**result, "choices": choices}
