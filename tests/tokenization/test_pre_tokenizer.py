"""The table of pre-tokenizers: the cuts that distinguish the models, and refusals."""

import pytest
from tokenizers import Regex, pre_tokenizers

from pelton.errors import CheckpointError
from pelton.tokenization.pre_tokenizer import PRE_TOKENIZERS, find_pre_tokenizer

pytestmark = pytest.mark.unit


def cut(pre: str, text: str) -> list[str]:
    splits = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in find_pre_tokenizer(pre).patterns]
    return [piece for piece, _ in pre_tokenizers.Sequence(splits).pre_tokenize_str(text)]


@pytest.mark.parametrize(
    ("pre", "text", "pieces"),
    [
        ("gpt-2", "It's 1234  x\n\n", ["It", "'s", " 1234", " ", " x", "\n\n"]),
        ("gpt-2", "IT'S", ["IT", "'", "S"]),
        ("smollm", "a 123", ["a", " ", "1", "2", "3"]),
        ("llama-bpe", "12345 IT'S!\n\n", ["123", "45", " IT", "'S", "!\n\n"]),
        ("qwen2", "a123 (b)\n", ["a", "1", "2", "3", " (", "b", ")\n"]),
        ("qwen2", "a   b", ["a", "  ", " b"]),
        ("gpt-4o", "helloWorld's 1234/\n", ["hello", "World's", " ", "123", "4", "/\n"]),
        ("tekken", "helloWorld's 12", ["hello", "World", "'s", " ", "1", "2"]),
        ("deepseek-v3", "ab1234\u4f60\u597dc", ["ab", "123", "4", "\u4f60\u597d", "c"]),
        ("qwen35", "e\u0301a", ["e\u0301a"]),
        ("deepseek-coder", "if a1:\n\n", ["if", " a", "1", ":", "\n", "\n"]),
        ("deepseek-coder", "x = \u4f60\u597d", ["x", " =", " ", "\u4f60\u597d"]),
        ("deepseek-llm", "It's caf\u00e9 12!\n", ["It", "'", "s", " caf", "\u00e9", " ", "12", "!", "\n"]),
        ("deepseek-llm", "a  \u4f60\u597d \U00010400b", ["a", "  ", "\u4f60\u597d", " \U00010400", "b"]),
        ("deepseek-llm", "\uff08x\uff09 ", ["\uff08", "x", "\uff09", " "]),
        ("seed-coder", "a123 (b)\n", ["a", "1", "2", "3", " (", "b", ")", "\n"]),
    ],
)
def test_cuts(pre: str, text: str, pieces: list[str]) -> None:
    assert cut(pre, text) == pieces


@pytest.mark.parametrize("pre", sorted(PRE_TOKENIZERS))
def test_cuts_lose_nothing(pre: str) -> None:
    text = "It's  42 \u4f60\u597d\t\n caf\u00e9\u0301 \U0001f916!?\r\n  "
    assert "".join(cut(pre, text)) == text


def test_unknown_names_are_refused() -> None:
    with pytest.raises(CheckpointError, match=r"'llama-bpd' is not a known pre-tokenizer. Did you mean 'llama-bpe'"):
        find_pre_tokenizer("llama-bpd")
    for pre in ("", "default"):
        with pytest.raises(CheckpointError, match="does not say how text is cut"):
            find_pre_tokenizer(pre)
