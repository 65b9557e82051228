"""Log-probabilities in both shapes."""

from __future__ import annotations

import pytest

from pelton.api.output import TokenLogprob
from pelton.server.logprob_shape import make_chat_logprobs, make_completion_logprobs

pytestmark = pytest.mark.unit
TOP = TokenLogprob(token_id=2, logprob=-0.25, text="b", raw=b"b")
TOKENS = [
    TokenLogprob(token_id=1, logprob=-0.5, text="\ufffd", raw=b"\xc3", top=(TOP,)),
    TokenLogprob(token_id=3, logprob=-1.0, text="cd", raw=b"cd", top=(TOP,)),
]


def test_chat_has_exact_bytes_and_as_many_top_tokens_as_asked() -> None:
    first = make_chat_logprobs(TOKENS, 1, as_ids=False)["content"][0]
    assert (first["token"], first["bytes"], first["logprob"]) == ("\ufffd", [0xC3], -0.5)
    assert first["top_logprobs"] == [{"token": "b", "logprob": -0.25, "bytes": [98]}]
    assert make_chat_logprobs(TOKENS, 0, as_ids=False)["content"][0]["top_logprobs"] == []


def test_completions_have_parallel_lists_with_the_chosen_token_among_the_top() -> None:
    shape = make_completion_logprobs(TOKENS, 1, as_ids=False, first_offset=10)
    assert shape == {
        "tokens": ["\ufffd", "cd"],
        "token_logprobs": [-0.5, -1.0],
        "top_logprobs": [{"\ufffd": -0.5, "b": -0.25}, {"cd": -1.0, "b": -0.25}],
        "text_offset": [10, 11],
    }


def test_ids_tell_tokens_of_the_same_text_apart() -> None:
    assert make_completion_logprobs(TOKENS, 0, as_ids=True)["tokens"] == ["token_id:1", "token_id:3"]


def test_of_tokens_of_the_same_text_the_chosen_stays() -> None:
    chosen = TokenLogprob(token_id=4, logprob=-3.0, text="b", raw=b"b", top=(TOP,))
    assert make_completion_logprobs([chosen], 1, as_ids=False)["top_logprobs"] == [{"b": -3.0}]
