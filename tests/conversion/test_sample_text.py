"""The sample texts notice what changes ids."""

from __future__ import annotations

import pytest
from tests.tokenization.small_tokenizers import byte_level_oracle

from pelton.conversion.sample_text import list_samples

pytestmark = pytest.mark.unit


def test_texts_are_many_and_the_same_every_time() -> None:
    texts = list(list_samples())
    assert texts == list(list_samples())
    assert len(set(texts)) > 300


@pytest.mark.parametrize("other", ["gpt-2", "llama-bpe", "smollm", "deepseek-v3", "gpt-4o", "tekken", "qwen35"])
def test_other_rules_of_cutting_words_are_noticed(other: str) -> None:
    one, two = (byte_level_oracle(name).pre_tokenizer for name in ("qwen2", other))
    assert any(one.pre_tokenize_str(text) != two.pre_tokenize_str(text) for text in list_samples())
