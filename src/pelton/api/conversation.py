"""A conversation becomes token ids: messages checked, then rendered and tokenized by the model's own.

Invariant: the client can set a template's variables but never what rendering itself passes (messages, tools, ...).
Rendering is waited for on a thread; the event loop never blocks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pelton.api.messages import parse_messages, parse_tools
from pelton.api.text_engine import TextEngine
from pelton.errors import RequestError
from pelton.tokenization.chat import Prompt as ChatPrompt
from pelton.tokenization.chat_template import RESERVED_VARIABLES as TEMPLATE_VARIABLES

# On top of those that rendering passes itself: names that the tokenizer fills, and switches of other engines.
RESERVED_VARIABLES = (
    *sorted(TEMPLATE_VARIABLES), "documents", "continue_final_message", "bos_token", "eos_token", "unk_token",
    "pad_token", "chat_template", "tokenize",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """Checked messages, tools and variables for a template."""

    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]] | None = None
    add_generation_prompt: bool = True
    continue_final_message: bool = False
    variables: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def parse(
        cls,
        messages: Sequence[Any],
        *,
        tools: Sequence[Any] | None = None,
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
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
            continue_final_message=continue_final_message,
            variables=dict(variables or {}),
        )


async def render_conversation(engine: TextEngine, conversation: Conversation) -> ChatPrompt:
    """The prompt's text and token ids. Raises RequestError if the model has no template, or it refuses the messages."""
    return await engine.run_on_template_thread(
        lambda: engine.parts.chat.make_prompt(
            conversation.messages,
            tools=conversation.tools,
            add_generation_prompt=conversation.add_generation_prompt,
            continue_final_message=conversation.continue_final_message,
            variables=conversation.variables,
        )
    )
