"""How one request's tokens are chosen. Names, defaults and limits are those of vLLM and OpenAI.

Order of application: bias and bans -> penalties (repetition, then frequency and presence) -> [greedy] ->
temperature -> min_p -> top_k -> top_p -> draw with Philox keyed by (seed, position).
"""

from __future__ import annotations

import math

import msgspec

from pelton.errors import RequestError

GREEDY_BELOW = 1e-5  # a temperature under this means "take the most likely token"


class SamplingParams(msgspec.Struct, frozen=True, kw_only=True):
    """What a request asks of the sampler and when it ends. Raises RequestError, naming the field, on a bad value."""

    n: int = 1
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0  # 0 or -1: all
    min_p: float = 0.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    seed: int | None = None
    max_tokens: int | None = 16  # None: up to the end of the context
    min_tokens: int = 0
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    include_stop_str_in_output: bool = False
    ignore_eos: bool = False
    skip_special_tokens: bool = True
    logprobs: int | None = None  # None: none; k: the chosen token and the k most likely
    logit_bias: dict[int, float] = {}

    def __post_init__(self) -> None:
        check_range("n", self.n, 1, 16384)
        check_range("temperature", self.temperature, 0.0, 2.0)
        check_range("top_p", self.top_p, 0.0, 1.0, low_is_open=True)
        check_range("top_k", self.top_k, -1, 2**31 - 1)
        check_range("min_p", self.min_p, 0.0, 1.0)
        check_range("presence_penalty", self.presence_penalty, -2.0, 2.0)
        check_range("frequency_penalty", self.frequency_penalty, -2.0, 2.0)
        check_range("repetition_penalty", self.repetition_penalty, 0.0, 100.0, low_is_open=True)
        if self.seed is not None:
            check_range("seed", self.seed, -(2**63), 2**64 - 1)
        if self.max_tokens is not None:
            check_range("max_tokens", self.max_tokens, 1, 2**31 - 1)
        check_range("min_tokens", self.min_tokens, 0, 2**31 - 1 if self.max_tokens is None else self.max_tokens)
        if self.logprobs is not None:
            check_range("logprobs", self.logprobs, 0, 20)
        if len(self.stop) > 16 or any(not text for text in self.stop):
            raise RequestError("stop: give at most 16 strings, none of them empty.", param="stop")
        for token_id, bias in self.logit_bias.items():
            check_range(f"logit_bias[{token_id}]", bias, -100.0, 100.0, param="logit_bias")

    @property
    def is_greedy(self) -> bool:
        """Whether the most likely token is taken, without drawing."""
        return self.temperature < GREEDY_BELOW


def check_range(
    name: str, value: float, low: float, high: float, *, low_is_open: bool = False, param: str | None = None
) -> None:
    """Raise RequestError unless low <= value <= high (low < value if `low_is_open`) and value is finite.

    >>> check_range("top_p", 0.5, 0.0, 1.0, low_is_open=True)
    """
    if (low < value if low_is_open else low <= value) and value <= high and math.isfinite(value):
        return  # in this order: whole numbers of any size can be compared, NaN never compares well
    bracket = "(" if low_is_open else "["
    raise RequestError(
        f"{name}: {str(value)[:32]} is out of range, expected a number in {bracket}{low}, {high}].", param=param or name
    )
