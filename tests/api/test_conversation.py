"""Conversations to prompts."""

from __future__ import annotations

import asyncio

import pytest
from tests.api.fakes import make_parts

from pelton.api.conversation import RESERVED_VARIABLES, Conversation, render_conversation
from pelton.api.text_engine import TextEngine
from pelton.errors import RequestError

pytestmark = pytest.mark.unit
MESSAGES = [{"role": "user", "content": "hi"}]


@pytest.mark.parametrize("name", [*RESERVED_VARIABLES, "not a name", "a.b", ""])
def test_a_client_cannot_set_what_rendering_passes(name: str) -> None:
    with pytest.raises(RequestError, match="chat_template_kwargs"):
        Conversation.parse(MESSAGES, variables={name: 1})


def test_everything_reaches_the_template() -> None:
    async def run() -> None:
        parts = make_parts()
        engine = TextEngine(parts)
        conversation = Conversation.parse(
            MESSAGES, add_generation_prompt=False, continue_final_message=True, variables={"enable_thinking": False}
        )
        prompt = await render_conversation(engine, conversation)
        engine.close()
        assert (prompt.text, bytes(prompt.token_ids)) == ("[hi]", b"[hi]")
        assert parts.chat.calls == [  # type: ignore[attr-defined]
            {
                "messages": MESSAGES,
                "tools": None,
                "add_generation_prompt": False,
                "continue_final_message": True,
                "variables": {"enable_thinking": False},
            }
        ]

    asyncio.run(run())
