"""A stream of tokens gives the text of the whole, and never takes anything back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tokenization.test_tokenizer import KINDS, small

from pelton.tokenization.detokenizer import Detokenizer

pytestmark = pytest.mark.unit

EMOJI = "\U0001f468\u200d\U0001f469\u200d\U0001f467"


def ids_of(kind: str) -> st.SearchStrategy[list[int]]:
    """Any ids at all, and ids of real text, where characters span tokens."""
    tokenizer = small(kind)
    random_ids = st.lists(st.integers(0, tokenizer.vocab_size - 1), max_size=30)
    return random_ids | st.text(max_size=20).map(tokenizer.encode)


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data(), skips=st.booleans(), is_continuation=st.booleans())
def test_joined_stream_equals_decode(kind: str, data: st.DataObject, skips: bool, is_continuation: bool) -> None:
    tokenizer = small(kind)
    ids = data.draw(ids_of(kind))
    options = {"skip_special_tokens": skips, "is_continuation": is_continuation}
    detokenizer = Detokenizer(tokenizer, **options)
    streamed = "".join([detokenizer.push(id_) for id_ in ids]) + detokenizer.finish()
    assert streamed == tokenizer.decode(ids, **options)


@pytest.mark.parametrize("kind", KINDS)
def test_no_replacement_character_while_a_character_is_open(kind: str) -> None:
    tokenizer = small(kind)
    ids = tokenizer.encode(EMOJI, add_special_tokens=False)
    assert len(ids) > 5
    detokenizer = Detokenizer(tokenizer)
    pieces = [detokenizer.push(id_) for id_ in ids]
    assert "\ufffd" not in "".join(pieces)
    assert "" in pieces
    assert "".join(pieces) == EMOJI


def test_character_cut_off_at_the_end_is_shown_at_the_end_only() -> None:
    tokenizer = small("byte_level")
    detokenizer = Detokenizer(tokenizer)
    first = tokenizer.encode("\U0001f916", add_special_tokens=False)[0]
    assert detokenizer.push(first) == ""
    assert detokenizer.finish() == "\ufffd"


def test_row_without_a_token_adds_nothing() -> None:
    tokenizer = small("byte_level")
    detokenizer = Detokenizer(tokenizer)
    assert detokenizer.push(tokenizer.vocab_size + 100) == ""
