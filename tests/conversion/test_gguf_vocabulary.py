"""A tokenizer.json and the vocabulary made of it give the same ids, or the conversion is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.tokenization.small_tokenizers import (
    CONTROL_TOKENS,
    NASTY_TEXTS,
    byte_level_oracle,
    gguf_of_sentencepiece,
    train_sentencepiece,
)
from tokenizers import Tokenizer as Library

from pelton.conversion.gguf_vocabulary import make_vocabulary
from pelton.errors import CheckpointError
from pelton.tokenization import HfTokenizerSource, make_tokenizer
from pelton.tokenization.gguf_tokenizer import CONTROL, UNUSED, USER_DEFINED
from pelton.tokenization.pre_tokenizer import PRE_TOKENIZERS

pytestmark = pytest.mark.unit


def source_of(library: Library, path: Path, **config: object) -> HfTokenizerSource:
    library.save(str(path / "tokenizer.json"))
    return HfTokenizerSource(
        tokenizer_json=path / "tokenizer.json",
        tokenizer_config=config,
        special_tokens={},
        chat_template="{{ messages }}",
        chat_templates={"tool_use": "{{ tools }}"},
    )


@pytest.mark.parametrize("pre", ["gpt-2", "llama-bpe", "qwen2", "smollm", "deepseek-v3"])
def test_byte_level_tokenizers_keep_their_ids(pre: str, tmp_path: Path) -> None:
    source = source_of(byte_level_oracle(pre), tmp_path, eos_token=CONTROL_TOKENS[2], bos_token=CONTROL_TOKENS[0])
    tokenizer = make_tokenizer(source)
    made = make_vocabulary(source, tokenizer, 640, [tokenizer.eos_token_id or 0, 7])
    assert PRE_TOKENIZERS[made.pre] == PRE_TOKENIZERS[pre]
    assert made.ids["eot_token_id"] == 7
    assert made.token_types[-1] == UNUSED
    assert {CONTROL, USER_DEFINED} <= set(made.token_types)
    assert (made.chat_template, dict(made.chat_templates)) == ("{{ messages }}", {"tool_use": "{{ tools }}"})
    again = make_tokenizer(made)
    assert [again.encode(text) for text in NASTY_TEXTS] == [tokenizer.encode(text) for text in NASTY_TEXTS]
    assert again.special_ids == tokenizer.special_ids


def test_sentencepiece_merges_become_scores(tmp_path: Path) -> None:
    _, proto = train_sentencepiece("bpe", byte_fallback=True)
    first = make_tokenizer(gguf_of_sentencepiece(proto, "llama", add_space_prefix=True))
    source = source_of(Library.from_str(first.save()), tmp_path)
    tokenizer = make_tokenizer(source)
    made = make_vocabulary(source, tokenizer, first.vocab_size, [])
    assert (made.model, made.pre, made.merges, made.flags["add_space_prefix"]) == ("llama", "default", [], True)
    again = make_tokenizer(made)
    assert [again.encode(text) for text in NASTY_TEXTS] == [first.encode(text) for text in NASTY_TEXTS]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda p: p["model"].update(type="WordLevel", unk_token="a", merges=[]), "WordLevel"),
        (lambda p: p["pre_tokenizer"]["pretokenizers"].pop(0), "no tokenizer.ggml.pre stands for"),
        (lambda p: p.update(normalizer={"type": "Lowercase"}), "not plain patterns"),
    ],
)
def test_a_pipeline_without_a_name_is_refused(change, message: str, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    pipeline = json.loads(byte_level_oracle("qwen2").to_str())
    change(pipeline)
    if "merges" in pipeline["model"] and not pipeline["model"]["merges"]:
        pipeline["model"] = {"type": "WordLevel", "vocab": pipeline["model"]["vocab"], "unk_token": "!"}
    source = source_of(Library.from_str(json.dumps(pipeline)), tmp_path)
    with pytest.raises(CheckpointError, match=message):
        make_vocabulary(source, make_tokenizer(source), 640, [])


def test_more_tokens_than_rows_are_refused(tmp_path: Path) -> None:
    source = source_of(byte_level_oracle("qwen2"), tmp_path)
    with pytest.raises(CheckpointError, match="the model has 300 tokens"):
        make_vocabulary(source, make_tokenizer(source), 300, [])


def test_merges_of_no_scores_are_refused(tmp_path: Path) -> None:
    _, proto = train_sentencepiece("bpe", byte_fallback=True)
    pipeline = json.loads(make_tokenizer(gguf_of_sentencepiece(proto, "llama")).save())
    merges = pipeline["model"]["merges"]
    del merges[3]
    source = source_of(Library.from_str(json.dumps(pipeline)), tmp_path)
    tokenizer = make_tokenizer(source)
    with pytest.raises(CheckpointError, match="merges are not those of any scores"):
        make_vocabulary(source, tokenizer, len(pipeline["model"]["vocab"]), [])
