"""Texts that are read, and those that come with Python."""

from pathlib import Path

import pytest

from pelton.bench.sample_text import SampleText, get_default_texts, read_text
from pelton.errors import ConfigError
from pelton.tokenization import Tokenizer

pytestmark = pytest.mark.unit


class Characters(Tokenizer):
    """A token is a character."""

    def __init__(self) -> None:
        pass

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        assert not add_special_tokens
        return [ord(character) for character in text]


def test_as_many_tokens_as_asked_for() -> None:
    assert SampleText("a.txt", "abcd").encode(Characters(), 3) == [97, 98, 99]
    with pytest.raises(ConfigError, match=r"a\.txt has 4 tokens, --positions asks for 5"):
        SampleText("a.txt", "abcd").encode(Characters(), 5)


def test_default_texts_are_source_and_english_of_some_length() -> None:
    source, english = get_default_texts()
    compile(source.content, source.name, "exec")
    assert min(len(source.content), len(english.content)) > 30_000
    assert english.content.count(" the ") > 200
    assert "types" in english.name


def test_files(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("h\u00e9", encoding="utf-8")
    assert read_text(tmp_path / "a.txt") == SampleText(str(tmp_path / "a.txt"), "h\u00e9")
    with pytest.raises(ConfigError, match=r"--text: .*none cannot be read \(No such file"):
        read_text(tmp_path / "none")
