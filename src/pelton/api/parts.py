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
from pelton.core.messages import EngineFacts
from pelton.engine.client import EngineClient
from pelton.tokenization.tokenizer import Tokenizer

ProgressCallback = Callable[[str, float], None]  # stage of the start, and how much of it is done (0 to 1)


class Template(Protocol):
    """Turns a conversation into the text that the model was trained on. May block: call it off the event loop."""

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        **variables: Any,
    ) -> str:
        """The prompt's text. Raises RequestError where the template refuses the conversation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineParts:
    """A running engine and what text needs around it. `template` is None for a model that has no chat template."""

    client: EngineClient
    facts: EngineFacts
    config: EngineConfig
    decisions: tuple[Decision, ...]
    tokenizer: Tokenizer
    template: Template | None
    generation: GenerationDefaults
    close: Callable[[], None] = lambda: None  # gives back what is not the engine's: checkpoint, template worker

    @property
    def eos_token_ids(self) -> tuple[int, ...]:
        """Every id after which an answer is over: what the checkpoint names, and what its tokenizer names."""
        return tuple(dict.fromkeys((*self.generation.eos_token_ids, *sorted(self.tokenizer.end_token_ids))))
