"""The fields of POST /v1/prefixes."""

from __future__ import annotations

from typing import Any

import msgspec

from pelton.server.field import Refused, Schema

MAX_TTL_S = 30 * 86400


class PrefixRequest(msgspec.Struct, kw_only=True):
    """The beginning of prompts to come, and a name for it."""

    name: str | None = None
    model: str | None = None
    prompt: str | list[int] | None = None
    messages: list[dict[str, Any]] | None = None
    tools: list[dict[str, Any]] | None = None
    add_special_tokens: bool | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    ttl: float | None = None
    cache_salt: str | None = None


PREFIX: Schema[PrefixRequest] = Schema(
    works=PrefixRequest,
    required=("name",),
    about={
        "name": "1 to 64 letters, digits, '.', '_' and '-'. What had this name before is released.",
        "model": "Name of the served model; may be left out.",
        "prompt": "The text or token ids that prompts of /v1/completions begin with; or give messages.",
        "messages": "What conversations begin with: the chat template makes a text of it, without an assistant's turn.",
        "tools": "With messages: the functions that the conversations have.",
        "add_special_tokens": "With prompt: put the model's BOS in front, as there; default true.",
        "chat_template_kwargs": "With messages: variables for the chat template, as there.",
        "ttl": f"Seconds until the name is released by itself, at most {MAX_TTL_S}; by default it is not.",
        "cache_salt": "That of the requests which are to find it.",
    },
    refused={"stream": Refused("the answer comes when the prefix has been computed.", (False,))},
)
