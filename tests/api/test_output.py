"""Generations grow by deltas."""

from __future__ import annotations

import pytest

from pelton.api.output import Completion, Generation, TextDelta, TokenLogprob

pytestmark = pytest.mark.unit


def test_a_generation_grows_where_the_delta_belongs() -> None:
    generation = Generation(
        request_id="r", prompt="p", prompt_token_ids=(1,), outputs=(Completion(index=0), Completion(index=1))
    )
    entry = TokenLogprob(token_id=5, logprob=-1.0, text="b", raw=b"b")
    for delta in (
        TextDelta(index=1, text="b", token_ids=(5,), logprobs=(entry,), num_cached_tokens=3),
        TextDelta(index=0, text="a", token_ids=(4,), finish_reason="stop", stop_reason="x"),
    ):
        generation = generation.extend(delta)
    assert [c.text for c in generation.outputs] == ["a", "b"]
    assert (generation.text, generation.token_ids, generation.finish_reason) == ("a", (4,), "stop")
    assert generation.outputs[1].logprobs == (entry,)
    assert generation.num_cached_tokens == 3
    assert not generation.finished
    generation = generation.extend(TextDelta(index=1, text="c", finish_reason="length"))
    assert (generation.outputs[1].text, generation.finished) == ("bc", True)
