"""Log-probabilities in OpenAI's two shapes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pelton.api.output import TokenLogprob


def name_token(token: TokenLogprob, *, as_id: bool) -> str:
    """A token's text, or token_id:N where the client wants to tell apart tokens of the same text."""
    return f"token_id:{token.token_id}" if as_id else token.text


def make_chat_logprobs(tokens: Sequence[TokenLogprob], num_top: int, *, as_ids: bool) -> dict[str, Any]:
    """The shape of chat completions: one object for each token, with exact bytes."""
    return {
        "content": [
            {
                **_chat_token(token, as_ids=as_ids),
                "top_logprobs": [_chat_token(top, as_ids=as_ids) for top in token.top[:num_top]],
            }
            for token in tokens
        ]
    }


def _chat_token(token: TokenLogprob, *, as_ids: bool) -> dict[str, Any]:
    return {"token": name_token(token, as_id=as_ids), "logprob": token.logprob, "bytes": list(token.raw)}


def make_completion_logprobs(
    tokens: Sequence[TokenLogprob], num_top: int, *, as_ids: bool, first_offset: int = 0
) -> dict[str, Any]:
    """The shape of completions: parallel lists. The chosen token is always among the top ones, as the field does."""
    offsets, offset = [], first_offset
    for token in tokens:
        offsets.append(offset)
        offset += len(token.text)
    return {
        "tokens": [name_token(token, as_id=as_ids) for token in tokens],
        "token_logprobs": [token.logprob for token in tokens],
        "top_logprobs": [_name_top(token, num_top, as_ids=as_ids) for token in tokens],
        "text_offset": offsets,
    }


def _name_top(token: TokenLogprob, num_top: int, *, as_ids: bool) -> dict[str, float]:
    """The chosen and the most likely tokens by name. Of one text the chosen stays, then the likeliest."""
    named: dict[str, float] = {}
    for top in (token, *token.top[:num_top]):
        named.setdefault(name_token(top, as_id=as_ids), top.logprob)
    return named
