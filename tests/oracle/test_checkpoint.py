"""The oracle's checkpoint is read like any other, and its tokens are bytes."""

from pathlib import Path

import pytest

from pelton.checkpoint.checkpoint import open_checkpoint
from pelton.oracle.checkpoint import END_TOKEN_ID, VOCAB_SIZE, write_checkpoint
from pelton.tokenization import make_tokenizer

pytestmark = pytest.mark.unit


def test_it_can_be_opened_and_its_tokens_are_bytes(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path / "a" / "b")
    before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert write_checkpoint(folder) == folder
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == before
    checkpoint = open_checkpoint(folder)
    assert checkpoint.spec.vocab_size == VOCAB_SIZE
    tokenizer = make_tokenizer(checkpoint.tokenizer_source)
    text = "hello\n\x00\x01\x7f \u00e9\u20ac\U0001f600"
    assert tokenizer.encode(text) == list(text.encode())
    assert tokenizer.decode(list(text.encode())) == text
    assert tokenizer.encode("a<|end|>") == [ord("a"), END_TOKEN_ID]
    assert tokenizer.end_token_ids == {END_TOKEN_ID}
    checkpoint.close()
