"""The fields of POST /tokenize and /detokenize."""

from __future__ import annotations

from typing import Any

import msgspec

from pelton.server.field import Refused, Schema


class TokenizeRequest(msgspec.Struct, kw_only=True):
    """A text or a conversation."""

    model: str | None = None
    prompt: str | None = None
    messages: list[dict[str, Any]] | None = None
    add_special_tokens: bool | None = None
    return_token_strs: bool | None = None
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None
    tools: list[dict[str, Any]] | None = None
    chat_template_kwargs: dict[str, Any] | None = None


class DetokenizeRequest(msgspec.Struct, kw_only=True):
    """Token ids."""

    model: str | None = None
    tokens: list[int] | None = None


TOKENIZE: Schema[TokenizeRequest] = Schema(
    works=TokenizeRequest,
    about={
        "model": "Name of the served model; may be left out.",
        "prompt": "The text; or give messages.",
        "messages": "A conversation, which the chat template turns into a text first.",
        "add_special_tokens": "Put the model's BOS in front; default true for a prompt. Templates bring their own.",
        "return_token_strs": "Give the spelling of each token too.",
        "add_generation_prompt": "As on /v1/chat/completions.",
        "continue_final_message": "As on /v1/chat/completions.",
        "tools": "As on /v1/chat/completions.",
        "chat_template_kwargs": "As on /v1/chat/completions.",
    },
    refused={
        "chat_template": Refused("templates are code, and are not taken from clients. See --chat-template."),
        "mm_processor_kwargs": Refused("this model reads text only.", ({},)),
    },
)
DETOKENIZE: Schema[DetokenizeRequest] = Schema(
    works=DetokenizeRequest,
    required=("tokens",),
    about={"model": "Name of the served model; may be left out.", "tokens": "The token ids."},
)
