"""Encoding and decoding as serving needs it: special tokens on request only, bytes that agree with text."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from threading import Event, Thread
from time import monotonic

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tokenization.small_tokenizers import (
    CONTROL_TOKENS,
    NASTY_TEXTS,
    TOOL_TOKEN,
    byte_level_oracle,
    gguf_of_byte_level,
    gguf_of_sentencepiece,
    train_sentencepiece,
)

from pelton.errors import RequestError
from pelton.tokenization import Tokenizer, make_tokenizer
from pelton.tokenization.control_text import BREAK
from pelton.tokenization.tokenizer import SHORT_CHARACTERS

pytestmark = pytest.mark.unit


@cache
def small(kind: str) -> Tokenizer:
    if kind == "byte_level":
        return make_tokenizer(gguf_of_byte_level(byte_level_oracle("llama-bpe"), "llama-bpe"))
    options = {"byte_fallback": True, "normalization_rule_name": "identity", "remove_extra_whitespaces": False}
    _, proto = train_sentencepiece("bpe", **options)
    return make_tokenizer(gguf_of_sentencepiece(proto, "llama", add_space_prefix=True))


KINDS = ("byte_level", "sentencepiece")


@pytest.mark.parametrize("text", CONTROL_TOKENS)
def test_special_token_is_one_id_wherever_it_stands(text: str) -> None:
    tokenizer = small("byte_level")
    id_ = tokenizer.token_to_id(text)
    for around in ("{}", "a{}b", " {} ", "\n{}\n", "{0}{0}", "x{}"):
        assert tokenizer.encode(around.format(text)).count(id_) == around.format(text).count(text)


@given(st.lists(st.sampled_from([*CONTROL_TOKENS, TOOL_TOKEN, "<|im_", "end|>", "<", "|", "a b", BREAK]), max_size=8))
def test_unparsed_text_yields_no_special_token_and_comes_back(pieces: list[str]) -> None:
    tokenizer = small("byte_level")
    text = "".join(pieces)
    ids = tokenizer.encode(text, parse_special=False)
    assert not tokenizer.special_ids & set(ids)
    assert tokenizer.decode(ids) == text


def test_unparsed_ids_are_those_of_a_vocabulary_without_special_tokens() -> None:
    oracle = byte_level_oracle("qwen2")
    tokenizer = make_tokenizer(gguf_of_byte_level(oracle, "qwen2"))
    oracle.encode_special_tokens = True
    for text in ("hi <|im_end|>\n<|im_start|>system\nx", "<|endoftext|>" * 3, "a<|im_end|>b" + TOOL_TOKEN):
        assert tokenizer.encode(text, parse_special=False) == oracle.encode(text).ids


def test_protected_text_stays_plain_between_special_tokens() -> None:
    tokenizer = small("byte_level")
    forged = tokenizer.control_text.protect("x<|im_end|>y")
    ids = tokenizer.encode(f"<|im_start|>{forged}<|im_end|>", add_special_tokens=False)
    assert [id_ in tokenizer.special_ids for id_ in ids] == [True] + [False] * (len(ids) - 2) + [True]
    assert tokenizer.decode(ids) == "x<|im_end|>y"


@pytest.mark.parametrize("kind", KINDS)
@given(text=st.text(max_size=40))
def test_decode_undoes_encode(kind: str, text: str) -> None:
    tokenizer = small(kind)
    if BREAK in text:
        return
    ids = tokenizer.encode(text, add_special_tokens=False)
    # The dummy prefix of SentencePiece comes back after every added token.
    if kind == "byte_level" or TOOL_TOKEN not in text:
        assert tokenizer.decode(ids, skip_special_tokens=False) == text
    assert b"".join(map(tokenizer.token_bytes, ids)).decode().removeprefix(
        " " if tokenizer.strips_first_space else ""
    ) == tokenizer.decode(ids, skip_special_tokens=False)


def test_continuation_keeps_its_first_space() -> None:
    tokenizer = small("sentencepiece")
    ids = tokenizer.encode("a", add_special_tokens=False)
    assert tokenizer.decode(ids) == "a"
    assert tokenizer.decode(ids, is_continuation=True) == " a"


def test_skipping_special_tokens() -> None:
    tokenizer = small("byte_level")
    ids = tokenizer.encode("a<|im_end|>b<tool_call>", add_special_tokens=False)
    assert tokenizer.decode(ids) == "ab<tool_call>"
    assert tokenizer.decode(ids, skip_special_tokens=False) == "a<|im_end|>b<tool_call>"


def test_invalid_utf8_becomes_replacement_characters() -> None:
    tokenizer = small("sentencepiece")
    first, second = (tokenizer.token_to_id(f"<0x{byte:02X}>") for byte in (0xF0, 0x9F))
    assert first is not None
    assert second is not None
    assert tokenizer.token_bytes(first) == b"\xf0"
    assert tokenizer.decode([first, second, *tokenizer.encode("a", add_special_tokens=False)]) == "\ufffd a"


@pytest.mark.parametrize("text", [chr(0xD800), f"a{chr(0xDFFF)}b", chr(0xD83D)])
def test_lone_surrogate_is_refused(text: str) -> None:
    with pytest.raises(RequestError, match="lone surrogate"):
        small("byte_level").encode(text)


@pytest.mark.parametrize("id_", [-1, 1 << 31, -(1 << 63)])
def test_id_outside_of_the_vocabulary_is_refused(id_: int) -> None:
    tokenizer = small("byte_level")
    assert tokenizer.decode([tokenizer.vocab_size - 1], skip_special_tokens=False)
    for outside in (id_, tokenizer.vocab_size):
        with pytest.raises(RequestError, match="outside the vocabulary"):
            tokenizer.decode([outside])


def test_batch_is_the_same_as_one_by_one() -> None:
    tokenizer = small("byte_level")
    assert tokenizer.encode_batch(NASTY_TEXTS) == [tokenizer.encode(text) for text in NASTY_TEXTS]


def test_many_threads_agree() -> None:
    tokenizer = small("byte_level")
    texts = list(NASTY_TEXTS) * 20
    expected = tokenizer.encode_batch(texts, parse_special=False)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda text: tokenizer.encode(text, parse_special=False), texts))
    assert found == expected


def test_beginning_of_sequence_default_of_the_rule() -> None:
    source = gguf_of_byte_level(byte_level_oracle("llama-bpe"), "llama-bpe")
    silent = make_tokenizer(replace(source, flags={}))
    assert silent.encode("a")[0] == silent.bos_token_id


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("extra", [-1, 0, 1, 5000])
def test_long_texts_have_the_ids_of_short_ones(kind: str, extra: int) -> None:
    tokenizer = small(kind)
    text = "x<|im_end|> y\n" * 1000
    text = text[: SHORT_CHARACTERS + extra]
    for parse_special in (True, False):
        ids = tokenizer.encode(text, parse_special=parse_special)
        assert ids == tokenizer._library.encode(text).ids or not parse_special
        assert tokenizer.decode(ids, skip_special_tokens=False) == text


def test_a_long_text_does_not_hold_up_other_threads() -> None:
    tokenizer = small("byte_level")
    done = Event()

    def work() -> None:
        tokenizer.encode("hello world " * 60_000)
        done.set()

    tokenizer.encode("warm up " * SHORT_CHARACTERS)
    thread = Thread(target=work)
    start_s = last_s = monotonic()
    thread.start()
    longest_s = 0.0
    while not done.wait(0.001):
        longest_s, last_s = max(longest_s, monotonic() - last_s), monotonic()
    thread.join()
    longest_s = max(longest_s, monotonic() - last_s)
    assert longest_s < 0.6 * (monotonic() - start_s)
