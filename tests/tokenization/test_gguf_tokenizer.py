"""Tokenizers rebuilt from GGUF give the ids of the libraries that trained the vocabulary."""

import re
from dataclasses import replace
from random import Random

import pytest
from tests.tokenization.small_tokenizers import (
    NASTY_TEXTS,
    TOOL_TOKEN,
    byte_level_oracle,
    gguf_of_byte_level,
    gguf_of_sentencepiece,
    train_sentencepiece,
)

from pelton.errors import CheckpointError
from pelton.tokenization import GgufTokenizerSource, make_tokenizer
from pelton.tokenization.pre_tokenizer import PRE_TOKENIZERS

pytestmark = pytest.mark.unit

DISTINCT_RULES = sorted({rule: name for name, rule in sorted(PRE_TOKENIZERS.items(), reverse=True)}.values())


def random_texts(count: int) -> list[str]:
    random = Random(0)
    alphabet = "abcde  \n\tAB'sltre0123456789.,<>_\u00e9\u00df\u0436\u4f60\u597d\U0001f916\u0301\u200d"
    return ["".join(random.choices(alphabet, k=random.randint(1, 50))) for _ in range(count)]


@pytest.mark.parametrize("pre", DISTINCT_RULES)
def test_byte_level_ids_equal_the_library(pre: str) -> None:
    oracle = byte_level_oracle(pre)
    tokenizer = make_tokenizer(gguf_of_byte_level(oracle, pre))
    for text in (*NASTY_TEXTS, *random_texts(200)):
        ids = tokenizer.encode(text)
        assert ids == oracle.encode(text).ids, text
        assert tokenizer.decode(ids, skip_special_tokens=False) == oracle.decode(ids, skip_special_tokens=False)


@pytest.mark.parametrize("adds_space", [True, False])
def test_sentencepiece_bpe_ids_equal_the_library(adds_space: bool) -> None:
    oracle, proto = train_sentencepiece(
        "bpe",
        byte_fallback=True,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        add_dummy_prefix=adds_space,
    )
    tokenizer = make_tokenizer(gguf_of_sentencepiece(proto, "llama", add_space_prefix=adds_space))
    for text in (*NASTY_TEXTS, *random_texts(1000)):
        # Where a text is cut at an added token each stretch begins anew; SentencePiece itself sees one text.
        if TOOL_TOKEN in text and adds_space:
            continue
        # The spelling of a control token is text to SentencePiece, and U+0000 ends a text there.
        if "\0" in text:
            continue
        ids = tokenizer.encode(text, parse_special=False)
        assert ids == oracle.encode(text), text
        assert tokenizer.decode(ids) == oracle.decode(ids), text


def test_unigram_ids_equal_the_library() -> None:
    oracle, proto = train_sentencepiece("unigram", byte_fallback=True)
    source = gguf_of_sentencepiece(proto, "t5", add_space_prefix=True, remove_extra_whitespaces=True)
    tokenizer = make_tokenizer(source)
    for text in (*NASTY_TEXTS, *random_texts(1000)):
        # The library applies the Unicode table to whole graphemes: accents in a row, or a joiner after one, come out
        # differently there. No model that Pelton runs has such a table.
        if TOOL_TOKEN in text or "\0" in text or re.search("\u0301[\u0301\u200d]", text):
            continue
        assert tokenizer.encode(text, parse_special=False) == oracle.encode(text), text


def test_every_combination_of_border_flags() -> None:
    source = gguf_of_byte_level(byte_level_oracle("qwen2"), "qwen2")
    bos, eos = source.ids["bos_token_id"], source.ids["eos_token_id"]
    for adds_bos in (False, True):
        for adds_eos in (False, True):
            flags = {"add_bos_token": adds_bos, "add_eos_token": adds_eos}
            tokenizer = make_tokenizer(replace(source, flags=flags))
            plain = tokenizer.encode("hello", add_special_tokens=False)
            assert tokenizer.encode("hello") == [bos] * adds_bos + plain + [eos] * adds_eos


@pytest.mark.parametrize(("model", "adds_bos"), [("llama", True), ("t5", False)])
def test_border_defaults_of_files_that_do_not_say(model: str, adds_bos: bool) -> None:
    _, proto = train_sentencepiece("unigram", byte_fallback=True)
    tokenizer = make_tokenizer(replace(gguf_of_sentencepiece(proto, model), flags={}))
    ids = tokenizer.encode("a b")
    assert (ids[0] == tokenizer.bos_token_id) is adds_bos
    assert (ids[-1] == tokenizer.eos_token_id) is (model == "t5")


def test_special_and_end_ids() -> None:
    tokenizer = make_tokenizer(gguf_of_byte_level(byte_level_oracle("qwen2"), "qwen2"))
    ids = {text: tokenizer.token_to_id(text) for text in ("<|endoftext|>", "<|im_start|>", "<|im_end|>", TOOL_TOKEN)}
    assert tokenizer.special_ids == {ids["<|endoftext|>"], ids["<|im_start|>"], ids["<|im_end|>"]}
    assert tokenizer.end_token_ids == {ids["<|endoftext|>"], ids["<|im_end|>"]}
    assert tokenizer.special_texts == {"bos_token": "<|endoftext|>", "eos_token": "<|im_end|>"}


def test_phi3_tokens_swallow_the_space_after_them() -> None:
    _, proto = train_sentencepiece("bpe", byte_fallback=True)
    plain = gguf_of_sentencepiece(proto, "llama", add_space_prefix=False)
    added = ("<|end|>", "<|placeholder1|>", "<|endoftext|>")
    source = replace(
        plain,
        tokens=[*plain.tokens, *added],
        scores=[*plain.scores, *[-1000.0] * len(added)],
        token_types=[*plain.token_types, *[3] * len(added)],
    )
    phi3 = make_tokenizer(source)
    assert phi3.encode("a<|end|>\n b") == phi3.encode("a<|end|>b")
    assert phi3.encode("a<|endoftext|>\n b") != phi3.encode("a<|endoftext|>b")
    other = make_tokenizer(replace(source, tokens=[text.replace("placeholder", "x") for text in source.tokens]))
    assert other.encode("a<|end|>\n b") != other.encode("a<|end|>b")


@pytest.mark.parametrize("is_named", [True, False])
@pytest.mark.parametrize(("kind", "model"), [("bpe", "llama"), ("unigram", "t5")])
def test_character_without_piece_or_bytes_is_unknown(kind: str, model: str, is_named: bool) -> None:
    oracle, proto = train_sentencepiece(
        kind, normalization_rule_name="identity", remove_extra_whitespaces=False, add_dummy_prefix=False
    )
    source = gguf_of_sentencepiece(proto, model, add_space_prefix=False)
    tokenizer = make_tokenizer(source if is_named else replace(source, ids={}))
    text = "a\U0010fffd\ue000\ue001b"
    assert tokenizer.encode(text) == oracle.encode(text)
    assert tokenizer.encode(text).count(0) == 1


def wrong(source: GgufTokenizerSource, **changes: object) -> GgufTokenizerSource:
    return replace(source, **changes)  # type: ignore[arg-type]  # any field


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": "rwkv"}, "tokenizer.ggml.model: 'rwkv' is not supported"),
        ({"pre": "qwen9"}, "'qwen9' is not a known pre-tokenizer. Did you mean 'qwen2'"),
        ({"pre": ""}, "tokenizer.ggml.pre is ''"),
        ({"tokens": []}, "has no vocabulary"),
        ({"merges": []}, "without its merges"),
        ({"token_types": [1]}, "token_type has 1 entries for 4 tokens"),
        ({"scores": [0.0]}, "scores has 1 entries for 4 tokens"),
        ({"ids": {"bos_token_id": 4}}, "bos_token_id is 4, and the vocabulary has 4 tokens"),
        ({"ids": {"eos_token_id": -1}}, "eos_token_id is -1"),
        ({"merges": ["a z"]}, "cannot be built"),
        ({"merges": ["a b", "ab"]}, "merges: entry 1 is 'ab'; expected two pieces"),
        ({"merges": ["a b c"]}, "merges: entry 0 is 'a b c'"),
        ({"merges": [" b"]}, "merges: entry 0 is ' b'"),
        ({"merges": [""]}, "merges: entry 0 is ''"),
        ({"tokens": ["a", "b", "a", "<s>"]}, "tokens 0 and 2 are both 'a'"),
        ({"token_types": [1, 1, 7, 3]}, "token_type of token 2 is 7"),
        ({"token_types": [1, 0, 1, 3]}, "token_type of token 1 is 0"),
        ({"scores": [0.0, 1.0, float("nan"), 0.0]}, "scores of token 2 is nan"),
        ({"model": "bert"}, "'bert' is not supported. Known: gpt2, llama, t5"),
        ({"model": "llama"}, "without its scores"),
        ({"model": "llama", "scores": [0.0] * 4}, "neither an unknown token nor one for each byte"),
        ({"model": "t5", "scores": [0.0] * 4}, "neither an unknown token nor one for each byte"),
        ({"model": "t5"}, "without its scores"),
        ({"tokens": ["a", "b", "ab", "\udc80"]}, "cannot be built"),
    ],
)
def test_damaged_vocabulary_is_refused(changes: dict[str, object], message: str) -> None:
    source = GgufTokenizerSource(
        model="gpt2",
        pre="qwen2",
        tokens=["a", "b", "ab", "<s>"],
        scores=[],
        token_types=[1, 1, 1, 3],
        merges=["a b"],
        ids={},
        flags={},
        chat_template=None,
    )
    assert make_tokenizer(source).encode("ab<s>") == [2, 3]
    with pytest.raises(CheckpointError, match=message):
        make_tokenizer(wrong(source, **changes))
