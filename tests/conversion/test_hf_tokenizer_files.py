"""The files made of a GGUF's tokenizer give the same ids, ends and templates."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.tokenization.small_tokenizers import NASTY_TEXTS, byte_level_oracle, gguf_of_byte_level

from pelton.checkpoint.contract import GenerationDefaults
from pelton.checkpoint.strict_json import parse_object
from pelton.conversion.hf_tokenizer_files import encode_json, list_ends, make_tokenizer_files
from pelton.tokenization import HfTokenizerSource, make_tokenizer

pytestmark = pytest.mark.unit


def test_files_say_what_the_gguf_says(tmp_path: Path) -> None:
    source = gguf_of_byte_level(byte_level_oracle("qwen2"), "qwen2")
    source = replace(source, chat_template="{{ messages }}", chat_templates={"rag": "{{ documents }}"})
    tokenizer = make_tokenizer(source)
    files = make_tokenizer_files(source, tokenizer, 4096)
    assert files["chat_template.jinja"] == b"{{ messages }}"
    assert files["additional_chat_templates/rag.jinja"] == b"{{ documents }}"
    (tmp_path / "tokenizer.json").write_bytes(files["tokenizer.json"])
    config = parse_object(files["tokenizer_config.json"], "tokenizer_config.json")
    assert config["model_max_length"] == 4096
    again = make_tokenizer(
        HfTokenizerSource(
            tokenizer_json=tmp_path / "tokenizer.json",
            tokenizer_config=config,
            special_tokens={},
            chat_template=None,
            chat_templates={},
        )
    )
    assert (again.bos_token_id, again.eos_token_id) == (tokenizer.bos_token_id, tokenizer.eos_token_id)
    assert [again.encode(text) for text in NASTY_TEXTS] == [tokenizer.encode(text) for text in NASTY_TEXTS]


def test_all_ends_are_listed_the_checkpoint_s_first() -> None:
    source = gguf_of_byte_level(byte_level_oracle("qwen2"), "qwen2")
    tokenizer = make_tokenizer(source)
    assert list_ends(GenerationDefaults(eos_token_ids=(5, 3)), None) == [5, 3]
    ends = list_ends(GenerationDefaults(eos_token_ids=(5,)), tokenizer)
    assert ends == [5, *sorted(tokenizer.end_token_ids)]
    assert len(tokenizer.end_token_ids) > 1


def test_json_is_written_as_others_write_it() -> None:
    assert encode_json({"a": "\u00e4"}) == '{\n  "a": "\u00e4"\n}\n'.encode()
