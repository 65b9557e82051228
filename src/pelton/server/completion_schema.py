"""The fields of POST /v1/completions."""

from __future__ import annotations

from typing import Any

from pelton.server import sampling_field
from pelton.server.field import Refused, Schema
from pelton.server.sampling_field import SamplingFields

MAX_PROMPTS = 1024
DEFAULT_MAX_TOKENS = 16  # OpenAI's


class CompletionRequest(SamplingFields, kw_only=True):
    """What works on this route besides the shared fields."""

    prompt: str | list[Any] | None = None
    echo: bool | None = None
    logprobs: int | None = None
    best_of: int | None = None


COMPLETION: Schema[CompletionRequest] = Schema(
    works=CompletionRequest,
    required=("prompt",),
    about={
        "prompt": "A text, a list of texts, token ids, or a list of those (at most 1024).",
        "echo": "Put the prompt in front of the answer.",
        "logprobs": "Give so many of the most likely tokens at each place, with their log-probabilities.",
        "best_of": "Only the same value as n.",
        **sampling_field.ABOUT,
    },
    without_effect=sampling_field.WITHOUT_EFFECT,
    refused={
        "suffix": Refused("filling in the middle has no field of its own here: write the model's own markers into the "
                          "prompt.", ("",)),
        "prompt_embeds": Refused("prompts are texts or token ids here."),
        **sampling_field.REFUSED,
    },
)  # fmt: skip
