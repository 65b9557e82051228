"""A conversation becomes token ids: messages checked, template rendered, text tokenized.

Invariant: the client can set a template's variables but never what rendering itself passes (messages, tools, ...).
Rendering runs in the template worker, waited for on a thread; the event loop never blocks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pelton.api.messages import parse_messages, parse_tools
from pelton.api.text_engine import TextEngine
from pelton.errors import RequestError

RESERVED_VARIABLES = (
    "messages", "tools", "documents", "add_generation_prompt", "continue_final_message", "bos_token", "eos_token",
    "chat_template", "tokenize", "raise_exception", "strftime_now",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """Checked messages, tools and variables for a template."""

    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]] | None = None
    add_generation_prompt: bool = True
    variables: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def parse(
        cls,
        messages: Sequence[Any],
        *,
        tools: Sequence[Any] | None = None,
        add_generation_prompt: bool = True,
        variables: Mapping[str, Any] | None = None,
    ) -> Conversation:
        """From what a client sent. Raises RequestError."""
        for name in variables or {}:
            if name in RESERVED_VARIABLES or not name.isidentifier():
                raise RequestError(
                    f"chat_template_kwargs: {name!r} cannot be set by a request.", param="chat_template_kwargs"
                )
        return cls(
            messages=parse_messages(messages),
            tools=parse_tools(tools) if tools else None,
            add_generation_prompt=add_generation_prompt,
            variables=dict(variables or {}),
        )


async def render_conversation(engine: TextEngine, conversation: Conversation) -> tuple[str, tuple[int, ...]]:
    """The prompt's text and token ids. Raises RequestError if the model has no template, or it refuses the messages."""
    template = engine.parts.template
    if template is None:
        raise RequestError(
            "messages: this model has no chat template, so it cannot take a conversation. Use /v1/completions, or "
            "start the server with --chat-template.",
            param="messages",
        )

    def render() -> str:
        return template.render(
            conversation.messages,
            tools=conversation.tools,
            add_generation_prompt=conversation.add_generation_prompt,
            **conversation.variables,
        )

    text = await asyncio.get_running_loop().run_in_executor(engine.template_threads, render)
    return text, await engine.tokenize(text, add_special_tokens=False)
