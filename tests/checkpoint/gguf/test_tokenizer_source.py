"""Every key of the tokenizer with its type; templates by name; keys that nobody knows are named in the log."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from tests.model_files import UINT32, array, f32, flag, i32s, llama_gguf, strings, text, u32

from pelton.checkpoint.gguf.checkpoint import GgufCheckpoint
from pelton.errors import CheckpointError
from pelton.tokenization.source import GgufTokenizerSource

pytestmark = pytest.mark.unit

UINT8, INT8 = 0, 1


def read(tmp_path: Path, **changes: bytes | None) -> GgufTokenizerSource:
    (tmp_path / "m.gguf").write_bytes(llama_gguf(**changes))
    return GgufCheckpoint(tmp_path / "m.gguf").tokenizer_source


@pytest.mark.parametrize("kind", [UINT8, INT8])
def test_the_table_of_unicode_is_bytes(tmp_path: Path, kind: int) -> None:
    source = read(tmp_path, tokenizer__ggml__precompiled_charsmap=array(kind, 4, b"\x00\x80\xff\x01"))
    assert source.precompiled_charsmap == b"\x00\x80\xff\x01"


def test_named_templates(tmp_path: Path) -> None:
    source = read(
        tmp_path,
        tokenizer__chat_template=text("plain"),
        tokenizer__chat_template__rag=text("with documents"),
        tokenizer__chat_template__tool_use=text("with tools"),
        tokenizer__chat_templates=strings(["rag", "tool_use", "default"]),
    )
    assert source.chat_template == "plain"
    assert source.chat_templates == {"rag": "with documents", "tool_use": "with tools"}


def test_flags_and_ids(tmp_path: Path) -> None:
    source = read(
        tmp_path,
        tokenizer__ggml__add_eos_token=flag(0),
        tokenizer__ggml__add_space_prefix=flag(1),
        tokenizer__ggml__add_sep_token=flag(0),
        tokenizer__ggml__seperator_token_id=u32(3),
        tokenizer__ggml__fim_pre_token_id=u32(4),
    )
    assert source.flags == {
        "add_bos_token": True,
        "add_eos_token": False,
        "add_sep_token": False,
        "add_space_prefix": True,
    }
    assert source.ids == {"bos_token_id": 0, "eos_token_id": 7, "seperator_token_id": 3, "fim_pre_token_id": 4}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tokenizer__ggml__add_bos_token": u32(1)}, "add_bos_token is 1; expected true or false"),
        ({"tokenizer__ggml__add_sep_token": flag(1)}, "add_sep_token is True, which is not supported"),
        ({"tokenizer__ggml__normalizer__lowercase": flag(1)}, "lowercase is True, which is not supported"),
        ({"tokenizer__ggml__precompiled_charsmap": i32s([1, 2])}, "precompiled_charsmap is not an array of bytes"),
        ({"tokenizer__ggml__precompiled_charsmap": text("ab")}, "precompiled_charsmap is not an array of bytes"),
        ({"tokenizer__ggml__fim_pre_token_id": u32(8)}, "fim_pre_token_id is 8; the model has 8 tokens"),
        ({"tokenizer__ggml__eot_token_id": f32(1.0)}, "eot_token_id is 1.0; expected a whole number"),
        ({"tokenizer__ggml__scores": i32s([0] * 8)}, "scores is not an array of 8 numbers"),
        ({"tokenizer__ggml__token_type": array(UINT32, 7, bytes(28))}, "token_type is not an array of 8 numbers"),
        ({"tokenizer__ggml__merges": text("a b")}, "merges is not an array of strings"),
        ({"tokenizer__chat_template": u32(1)}, "tokenizer.chat_template is 1; expected text"),
        ({"tokenizer__chat_template__rag": flag(1)}, "tokenizer.chat_template.rag is True; expected text"),
        ({"tokenizer__chat_templates": strings(["rag"])}, "lists 'rag', and there is no key"),
        ({"tokenizer__chat_templates": text("rag")}, "expected an array of strings"),
        ({"tokenizer__chat_template": text("x" * (4 << 20) + "x")}, "a template has at most 4194304 bytes"),
    ],
)
def test_values_that_are_none(tmp_path: Path, changes: dict[str, bytes], message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        read(tmp_path, **changes)


def test_unknown_keys_are_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "pelton.checkpoint"):
        read(tmp_path, tokenizer__huggingface__json=text("{}"), tokenizer__ggml__token_type_count=u32(1))
        assert not caplog.records
        read(tmp_path, tokenizer__ggml__lowercases_everything=flag(1))
    (record,) = caplog.records
    assert record.fields["keys"] == ["tokenizer.ggml.lowercases_everything"]
