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
