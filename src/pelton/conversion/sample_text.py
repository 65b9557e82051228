"""Texts on which tokenizers tend to differ: a few hundred, enough to notice that two are not the same."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

_WORDS = (
    *("", " ", "  ", "\n", "\n\n", " \n ", "\t", "\r\n", "\u00a0", "\u3000", "a", "A", "the", " the", "The", "THE"),
    *(
        "don't",
        "DON'T",
        "we'll",
        "I\u2019m",
        "1",
        "12",
        "123",
        "1234567890",
        "3.14",
        "1,000",
        "\u0661\u0662",
        "\uff11\uff12",
    ),
    *(
        "caf\u00e9",
        "cafe\u0301",
        "\u00fcber",
        "stra\u00dfe",
        "\u041f\u0440\u0438\u0432\u0435\u0442",
        "\u4f60\u597d\uff0c\u4e16\u754c",
    ),
    *(
        "\u3053\u3093\u306b\u3061\u306f",
        "\u0627\u0644\u0639\u0631\u0628\u064a\u0629",
        "\u05e9\u05dc\u05d5\u05dd",
        "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35",
    ),
    *(
        "\U0001f600",
        "\U0001f469\u200d\U0001f4bb",
        "\U0001f1e9\U0001f1ea",
        "\u200b",
        "\ufeff",
        "\ufffd",
        "\x00",
        "\x7f",
        "!",
        "?!",
        "...",
    ),
    *(
        "<s>",
        "</s>",
        "<unk>",
        "<|im_start|>",
        "<|endoftext|>",
        "<bos>",
        "[INST]",
        "{{7*7}}",
        "<0x0A>",
        "\u2581a",
        "\u0120a",
    ),
    *(
        "def f(x):\n    return x + 1\n",
        "for (int i = 0; i < n; ++i) {}",
        "https://a.example/b?c=d&e=f#g",
        "user@example.org",
    ),
    *("aGVsbG8gd29ybGQ=", "\\frac{a}{b}", "snake_case camelCase PascalCase kebab-case", "x" * 300, " " * 40, "=" * 80),
)
_GLUE = ("", " ", "\n")


def list_samples() -> Iterator[str]:
    """Each alone, and each with a neighbour or two, in a fixed order."""
    yield from _WORDS
    for index, (word, glue) in enumerate(product(_WORDS, _GLUE)):
        other = _WORDS[(7 * index + 3) % len(_WORDS)]
        yield f"{word}{glue}{other}"
        yield f"{other}{glue}{word}{glue}{other}"
