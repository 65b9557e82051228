"""The fields of POST /v1/chat/completions."""

from __future__ import annotations

from typing import Any

from pelton.server import sampling_field
from pelton.server.field import Refused, Schema
from pelton.server.sampling_field import SamplingFields


class ChatRequest(SamplingFields, kw_only=True):
    """What works on this route besides the shared fields."""

    messages: list[dict[str, Any]] | None = None
    max_completion_tokens: int | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    reasoning_effort: str | None = None


CHAT: Schema[ChatRequest] = Schema(
    works=ChatRequest,
    required=("messages",),
    about={
        "messages": "The conversation: objects with role and content (a text, or a list of text parts).",
        "max_completion_tokens": "The same as max_tokens; by default an answer may fill the rest of the context.",
        "logprobs": "Give the log-probability of each token.",
        "top_logprobs": "With logprobs: so many of the most likely tokens at each place.",
        "tools": "Functions that the chat template tells the model about.",
        "tool_choice": "auto, or none to leave the tools out of the prompt.",
        "add_generation_prompt": "Open the assistant's message at the end of the prompt; default true.",
        "continue_final_message": "Let the model go on with the last message; needs add_generation_prompt=false.",
        "chat_template_kwargs": "Variables for the chat template.",
        "reasoning_effort": "A variable of the same name for the chat template.",
        **sampling_field.ABOUT,
    },
    without_effect={
        **sampling_field.WITHOUT_EFFECT,
        "parallel_tool_calls": "Tool calls are not parsed out of the answer.",
        "metadata": "Nothing is stored.",
        "service_tier": "There is one tier.",
        "prediction": "It is a hint for speed.",
        "safety_identifier": "Nothing is kept about users.",
        "prompt_cache_key": "Equal prefixes are found without it.",
        "prompt_cache_retention": "Prefixes are kept while there is room.",
        "prompt_cache_options": "Equal prefixes are found without it.",
        "verbosity": "The model has no such setting.",
        "include_reasoning": "The answer is given whole.",
    },
    refused={
        **sampling_field.REFUSED,
        "store": Refused("answers are not stored here.", (False,)),
        "modalities": Refused("this model writes text only.", (["text"],)),
        "audio": Refused("this model writes text only."),
        "moderation": Refused("there is no moderation here."),
        "functions": Refused("use tools, which has taken its place.", ([],)),
        "function_call": Refused("use tool_choice, which has taken its place.", ("none", "auto")),
        "web_search_options": Refused("the server looks nothing up."),
        "echo": Refused("on this route the prompt is not given back.", (False,)),
        "documents": Refused("put the documents' text into a message.", ([],)),
        "chat_template": Refused("templates are code, and are not taken from clients. See --chat-template."),
        "media_io_kwargs": Refused("this model reads text only.", ({},)),
        "thinking_token_budget": Refused("this version cannot bound the reasoning. Use max_tokens."),
    },
)
