"""Tokens become text: cuts, stop strings, stop tokens, log-probabilities."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.api.fakes import EOS, ByteTokenizer

from pelton.api.output import TextDelta
from pelton.api.output_text import LEAST_LOGPROB, OutputText
from pelton.core.outputs import RequestOutput
from pelton.core.sampling_params import SamplingParams
from pelton.core.step import RequestId, TokenLogprobs

pytestmark = pytest.mark.unit
ID = RequestId("r")


def push_all(sampling: SamplingParams, parts: list[bytes], *, finish: str = "length") -> list[TextDelta]:
    """The deltas of outputs with these bytes as tokens; stops where the text side says so."""
    text = OutputText(ByteTokenizer(), sampling)  # type: ignore[arg-type]
    deltas = []
    for i, part in enumerate(parts):
        reason = finish if i == len(parts) - 1 else None
        deltas.append(text.push(RequestOutput(request_id=ID, token_ids=tuple(part), finish_reason=reason)))
        if text.is_finished:
            break
    return deltas


def cut(data: bytes, places: list[int]) -> list[bytes]:
    """`data` in pieces, none empty."""
    borders = sorted({0, len(data), *(p % (len(data) + 1) for p in places)})
    return [data[a:b] for a, b in pairwise(borders)]


@given(st.text(min_size=1, max_size=40), st.lists(st.integers(0, 200), max_size=12))
def test_joined_deltas_are_the_whole_text(text: str, places: list[int]) -> None:
    deltas = push_all(SamplingParams(), cut(text.encode(), places))
    assert "".join(d.text for d in deltas) == text
    assert [d.finish_reason for d in deltas if d.finish_reason] == ["length"]


@given(st.text("ab", min_size=1, max_size=30), st.lists(st.integers(0, 200), max_size=12), st.booleans())
def test_a_stop_string_is_found_wherever_the_cuts_are(text: str, places: list[int], include: bool) -> None:
    sampling = SamplingParams(stop=("aba", "bb"), include_stop_str_in_output=include)
    deltas = push_all(sampling, cut(text.encode(), places))
    shown = "".join(d.text for d in deltas)
    ends = {text.find(stop) + len(stop): stop for stop in sampling.stop if stop in text}
    if not ends:
        assert shown == text
        assert deltas[-1].finish_reason == "length"
        return
    end = min(ends)
    assert shown == text[: end if include else end - len(ends[end])]
    assert (deltas[-1].finish_reason, deltas[-1].stop_reason) == ("stop", ends[end])
    assert sum(len(d.token_ids) for d in deltas) == end  # what follows the stop string is not billed


def test_held_back_text_is_released_at_the_end() -> None:
    deltas = push_all(SamplingParams(stop=("xyz",)), [b"a", b"x", b"y"])
    assert [d.text for d in deltas] == ["a", "", "xy"]


def test_stop_strings_do_not_count_before_min_tokens() -> None:
    deltas = push_all(SamplingParams(stop=("a",), min_tokens=2), [b"a", b"a", b"b", b"a", b"b"])
    assert "".join(d.text for d in deltas) == "aab"
    assert deltas[-1].stop_reason == "a"


def test_an_open_character_at_the_end_becomes_one_replacement() -> None:
    deltas = push_all(SamplingParams(), [b"a", "é".encode()[:1]])
    assert "".join(d.text for d in deltas) == "a�"


@pytest.mark.parametrize(
    ("sampling", "token", "text", "reason"),
    [
        (SamplingParams(), EOS, "hi", None),
        (SamplingParams(skip_special_tokens=False), EOS, "hi", None),
        (SamplingParams(stop_token_ids=(33,)), 33, "hi", 33),
        (SamplingParams(stop_token_ids=(33,), include_stop_str_in_output=True), 33, "hi!", 33),
    ],
)
def test_the_stop_token_is_not_part_of_the_text(
    sampling: SamplingParams, token: int, text: str, reason: int | None
) -> None:
    output = RequestOutput(request_id=ID, token_ids=(104, 105, token), finish_reason="stop", stop_token_id=token)
    delta = OutputText(ByteTokenizer(), sampling).push(output)  # type: ignore[arg-type]
    assert (delta.text, delta.stop_reason, delta.token_ids) == (text, reason, (104, 105, token))


def test_logprobs_have_exact_bytes_and_finite_numbers() -> None:
    given_ = TokenLogprobs(float("-inf"), (0xC3, 65), (-0.1, -2.0))
    output = RequestOutput(request_id=ID, token_ids=(0xC3,), logprobs=(given_,))
    delta = OutputText(ByteTokenizer(), SamplingParams(logprobs=2)).push(output)  # type: ignore[arg-type]
    (entry,) = delta.logprobs
    assert (entry.raw, entry.text, entry.logprob) == (b"\xc3", "�", LEAST_LOGPROB)
    assert [(t.text, t.logprob) for t in entry.top] == [("�", -0.1), ("A", -2.0)]
