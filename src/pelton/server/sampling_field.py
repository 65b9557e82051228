"""The fields that /v1/completions and /v1/chat/completions share, and how they become sampling parameters."""

from __future__ import annotations

from typing import Any

import msgspec

from pelton.api.generation_default import make_sampling
from pelton.core.sampling_params import SamplingParams, check_range
from pelton.errors import RequestError
from pelton.server.field import Refused

MAX_ANSWERS = 4096  # prompts * n of one request: each is a request of the engine

MAX_STOP_CHARACTERS = 1024


class StreamOptions(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What goes into a stream besides text."""

    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None
    include_obfuscation: bool | None = None


class SamplingFields(msgspec.Struct, kw_only=True):
    """Fields that work on both routes. None: the client did not say."""

    model: str | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    n: int | None = None
    seed: int | None = None
    stop: str | list[str] | None = None
    stop_token_ids: list[int] | None = None
    include_stop_str_in_output: bool | None = None
    ignore_eos: bool | None = None
    min_tokens: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    repetition_penalty: float | None = None
    logit_bias: dict[str, float] | None = None
    skip_special_tokens: bool | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    truncate_prompt_tokens: int | None = None
    add_special_tokens: bool | None = None
    return_token_ids: bool | None = None
    return_tokens_as_token_ids: bool | None = None
    priority: int | None = None
    cache_salt: str | None = None
    timeout: float | None = None
    explain_cache: bool | None = None
    request_id: str | None = None

    @property
    def wants_usage_in_stream(self) -> bool:
        """Whether a last chunk with the token counts was asked for."""
        return self.stream_options is not None and bool(self.stream_options.include_usage)

    @property
    def wants_usage_in_chunks(self) -> bool:
        """Whether every chunk is to carry the counts so far."""
        return self.stream_options is not None and bool(self.stream_options.continuous_usage_stats)


ABOUT = {
    "model": "Name of the served model; may be left out.",
    "max_tokens": "Most tokens of the answer.",
    "temperature": "0 to 2; 0 takes the most likely token.",
    "top_p": "Draw from the most likely tokens that together have this probability.",
    "top_k": "Draw from so many of the most likely tokens; 0 or -1 from all.",
    "min_p": "Leave out tokens less likely than this share of the most likely one.",
    "n": "Number of answers.",
    "seed": "Same seed, same answer.",
    "stop": "A text or up to 16 texts that end the answer.",
    "stop_token_ids": "Tokens that end the answer.",
    "include_stop_str_in_output": "Leave the stop text in the answer.",
    "ignore_eos": "Go on after the model's end of text.",
    "min_tokens": "Neither end of text nor stop texts before so many tokens.",
    "presence_penalty": "-2 to 2, on tokens that the answer has already.",
    "frequency_penalty": "-2 to 2, on tokens by how often the answer has them.",
    "repetition_penalty": "Above 0, on tokens of prompt and answer; 1 is none.",
    "logit_bias": "From token id (as a text) to a bias of -100 to 100.",
    "skip_special_tokens": "Leave control tokens out of the text; default true.",
    "stream": "Send the answer in pieces, as server-sent events.",
    "stream_options": "include_usage: a last chunk with token counts; continuous_usage_stats: counts in every chunk.",
    "truncate_prompt_tokens": "Keep only the last tokens of the prompt, so many.",
    "add_special_tokens": "Put the model's BOS in front of the prompt.",
    "return_token_ids": "Give token ids beside the text.",
    "return_tokens_as_token_ids": "Name tokens in logprobs by their id, as token_id:N.",
    "priority": "Smaller runs first, with --scheduling-policy priority.",
    "cache_salt": "Computed prefixes are shared only among requests with the same one.",
    "timeout": "Seconds within which the answer must be whole; the header x-request-timeout-ms says the same.",
    "explain_cache": "Say in the usage why the rest of the prompt was not cached.",
    "request_id": "Your name for the request; part of the answer's id.",
}
WITHOUT_EFFECT = {
    "user": "Nothing is kept about users.",
    "length_penalty": "It belongs to beam search.",
    "spaces_between_special_tokens": "Text is exact: nothing is put between tokens.",
    "session_id": "Equal prefixes are found without it.",
    "truncation_side": "The start of the prompt is what is left out.",
    "stream_interval": "Every step of the engine is sent.",
    "return_weight_versions": "Weights do not change while the server runs.",
}
MAX_SALT_CHARACTERS = 256
_SOON = "this version cannot do it. Leave it out."
REFUSED = {
    "use_beam_search": Refused(f"beam search: {_SOON}", (False,)),
    "prompt_logprobs": Refused(f"log-probabilities of the prompt: {_SOON}"),
    "prompt_logprob_start": Refused(f"log-probabilities of the prompt: {_SOON}"),
    "logprob_token_ids": Refused(f"scoring of chosen tokens: {_SOON}", ([],)),
    "allowed_token_ids": Refused("it has no counterpart here yet. Use logit_bias.", ([],)),
    "bad_words": Refused("it has no counterpart here yet. Use logit_bias for single tokens.", ([],)),
    "structured_outputs": Refused(f"output that follows a grammar: {_SOON}", ({},)),
    "guided_json": Refused(f"output that follows a grammar: {_SOON}"),
    "guided_regex": Refused(f"output that follows a grammar: {_SOON}"),
    "guided_choice": Refused(f"output that follows a grammar: {_SOON}"),
    "guided_grammar": Refused(f"output that follows a grammar: {_SOON}"),
    "response_format": Refused(f"output that follows a format: {_SOON}", ({"type": "text"},)),
    "kv_transfer_params": Refused("fields of the engine's inside are not taken from clients."),
    "ec_transfer_params": Refused("fields of the engine's inside are not taken from clients."),
    "vllm_xargs": Refused("arguments for custom code are not taken from clients.", ({},)),
    "mm_processor_kwargs": Refused("this model reads text only.", ({},)),
    "repetition_detection": Refused(_SOON),
    "watermarking": Refused(_SOON, (False,)),
    "return_prompt_text": Refused(f"{_SOON} On completions, echo gives the prompt's text.", (False,)),
}


def to_sampling(fields: SamplingFields, defaults: dict[str, Any], *, max_logprobs: int, **more: Any) -> SamplingParams:
    """Sampling parameters of a request over the model's `defaults`; `more` are fields that a route names otherwise."""
    stop = (fields.stop,) if isinstance(fields.stop, str) else tuple(fields.stop or ())
    if any(len(text) > MAX_STOP_CHARACTERS for text in stop):
        raise RequestError(f"stop: a text of more than {MAX_STOP_CHARACTERS} characters.", param="stop")
    if fields.cache_salt is not None and not 0 < len(fields.cache_salt) <= MAX_SALT_CHARACTERS:
        raise RequestError(
            f"cache_salt: {len(fields.cache_salt)} characters, expected 1 to {MAX_SALT_CHARACTERS}.", param="cache_salt"
        )
    check_range("priority", fields.priority or 0, -(2**31), 2**31 - 1)
    logprobs = more.get("logprobs")
    if logprobs is not None and logprobs > max_logprobs:
        raise RequestError(
            f"logprobs: {logprobs} tokens asked for, at most {max_logprobs} are given.", param="logprobs"
        )
    asked = {
        name: getattr(fields, name)
        for name in (
            "n", "temperature", "top_p", "top_k", "min_p", "presence_penalty", "frequency_penalty",
            "repetition_penalty", "seed", "min_tokens", "include_stop_str_in_output", "ignore_eos",
            "skip_special_tokens",
        )
    }  # fmt: skip
    asked |= {"stop": stop, "stop_token_ids": tuple(fields.stop_token_ids or ()), **more}
    asked["logit_bias"] = parse_logit_bias(fields.logit_bias or {})
    # None means "not asked" for every field but this one, where it means "to the end of the context".
    return make_sampling(asked, {**defaults, "max_tokens": more.get("max_tokens")})


def parse_logit_bias(given: dict[str, float]) -> dict[int, float]:
    """Biases by token id. Raises RequestError for a key that is no token id.

    >>> parse_logit_bias({"7": -100})
    {7: -100}
    """
    for key in given:
        if not (key.isascii() and key.isdecimal() and len(key) < 10):
            raise RequestError(
                f"logit_bias: {key[:32]!r} is not a token id, expected a whole number.", param="logit_bias"
            )
    return {int(key): bias for key, bias in given.items()}


def check_stream_options(fields: SamplingFields) -> None:
    """Raise RequestError where options of a stream are given and no stream is asked for."""
    if fields.stream_options is not None and not fields.stream:
        raise RequestError("stream_options: only together with stream=true.", param="stream_options")


def check_answers(num_prompts: int, n: int) -> None:
    """Raise RequestError if a request asks for more answers than one may."""
    if num_prompts * n > MAX_ANSWERS:
        raise RequestError(
            f"n: {num_prompts} prompts with n={n} are {num_prompts * n} answers, at most {MAX_ANSWERS} are given for "
            "one request.",
            param="n",
        )


def truncate(token_ids: tuple[int, ...], keep: int | None) -> tuple[int, ...]:
    """The last `keep` tokens. Raises RequestError unless that is at least one.

    >>> truncate((1, 2, 3), 2)
    (2, 3)
    """
    if keep is None:
        return token_ids
    if keep < 1:
        raise RequestError(
            f"truncate_prompt_tokens: {keep} is out of range, expected at least 1.", param="truncate_prompt_tokens"
        )
    return token_ids[-keep:]
