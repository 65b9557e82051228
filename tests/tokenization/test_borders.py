"""BOS and EOS around a text."""

import pytest
from tokenizers import Tokenizer, models

from pelton.tokenization.borders import add_borders

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("bos_id", "eos_id", "expected"),
    [(None, None, [0]), (1, None, [1, 0]), (None, 2, [0, 2]), (1, 2, [1, 0, 2]), (1, 1, [1, 0, 1])],
)
def test_borders_replace_what_was_there(bos_id: int | None, eos_id: int | None, expected: list[int]) -> None:
    library = Tokenizer(models.BPE({"a": 0, "<s>": 1, "</s>": 2}, []))
    add_borders(library, 2, 2)
    add_borders(library, bos_id, eos_id)
    assert library.encode("a").ids == expected
    assert library.encode("a", add_special_tokens=False).ids == [0]


@pytest.mark.parametrize("text", ["<s:1>", "$A", "$0", ":", "$B:1"])
def test_a_border_may_be_spelled_like_a_template(text: str) -> None:
    library = Tokenizer(models.BPE({"a": 0, text: 1, "</s>": 2}, []))
    add_borders(library, 1, 2)
    assert library.encode("a").ids == [1, 0, 2]
    assert library.encode("a").tokens == [text, "a", "</s>"]
