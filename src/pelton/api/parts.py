"""What an engine for text consists of, once `api.assemble` has put it together.

Invariant: frozen; everything above the engine (`LLM`, `AsyncLLM`, the server) works with these parts and nothing else,
so a test can give it a fake engine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pelton.checkpoint.contract import GenerationDefaults
from pelton.config.decision import Decision
from pelton.config.schema import EngineConfig
from pelton.config.user_config import UserConfig
from pelton.core.messages import EngineFacts
from pelton.engine.client import EngineClient
from pelton.tokenization.chat import Prompt as ChatPrompt
from pelton.tokenization.tokenizer import Tokenizer

ProgressCallback = Callable[[str, float], None]  # stage of the start, and how much of it is done (0 to 1)


class ChatPrompts(Protocol):
    """Turns a conversation into the prompt that the model was trained on: `tokenization.chat.Chat`."""

    def make_prompt(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
        variables: Mapping[str, Any] | None = None,
    ) -> ChatPrompt:
        """Text and token ids. Blocks. Raises RequestError where there is no template, or it refuses the messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineParts:
    """A running engine and what text needs around it."""

    client: EngineClient
    facts: EngineFacts
    asked: UserConfig
    config: EngineConfig
    decisions: tuple[Decision, ...]
    tokenizer: Tokenizer
    chat: ChatPrompts
    generation: GenerationDefaults
    close: Callable[[], None] = lambda: None  # gives back what is not the engine's: checkpoint, template processes

    @property
    def eos_token_ids(self) -> tuple[int, ...]:
        """Every id after which an answer is over: what the checkpoint names, and what its tokenizer names."""
        return tuple(dict.fromkeys((*self.generation.eos_token_ids, *sorted(self.tokenizer.end_token_ids))))
