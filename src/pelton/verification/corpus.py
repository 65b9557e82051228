"""Some thousand texts, made and not collected, on which tokenizers that differ anywhere are likely to differ.

Every token alone would be the whole vocabulary again, so a sample of it stands in several surroundings; scripts, forms
of Unicode, white space, digits and contractions come in products. The same every time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product
from random import Random
from typing import Final

from pelton.conversion.sample_text import list_samples

NUM_PIECES: Final = 600
NUM_RANDOM: Final = 1200
NUM_ID_RUNS: Final = 300
_SPACES: Final = (" ", "\t", "\n", "\r\n", "\u00a0", "\u2003", "\u3000")
_AROUND: Final = ("{}", " {}", "{} ", "a{}b", "{0}{0}", "\n{}\n")
_CONTRACTED: Final = ("'s", "'S", "\u2019s", "'re", "'LL", "'d", "n't", "N'T")
_ALPHABETS: Final = (
    "abcdefghij ABC.,'",
    "0123456789 .,-+e%",
    " \t\n\r\u00a0\u200b",
    "\u00e4\u00f6\u00fc\u00df e\u0301\u0308\u0327",
    "\u4f60\u597d\u4e16\u754c\u3002\u65e5\u672c\u8a9e\u30ab\u30bf",
    "\u0627\u0644\u0639\u0631\u0628\u064a\u0629 \u05e9\u05dc\u05d5\u05dd",
    "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35 \u0915\u094d\u0937",
    "\U0001f600\U0001f468\u200d\U0001f469\ufe0f\U0001f1e9\U0001f1ea",
    "(){}[]<>=!&|;:#@\\/\"'`~^*_-+",
    "<|im_start|>[INST]</s><0x41>\u2581\u0120\u010a",
)


def list_texts(pieces: Iterable[str], special: Iterable[str], seed: int = 0) -> list[str]:
    """The corpus. `pieces` are decoded tokens of the source, `special` the texts of its added tokens."""
    draw = Random(seed)
    texts = list(list_samples())
    known = sorted(set(pieces))
    sample = draw.sample(known, min(NUM_PIECES, len(known)))
    texts += [around.format(piece) for piece, around in product(sample, _AROUND[:3])]
    texts += [around.format(text) for text, around in product(sorted(set(special)), _AROUND)]
    texts += [space * count for space, count in product(_SPACES, (*range(1, 12), 16, 31, 40))]
    texts += [f"x{space * count}y" for space, count in product(_SPACES, (1, 2, 3, 8))]
    texts += ["7" * count for count in range(1, 13)]
    texts += [f"{word}{end} is" for word, end in product(("it", "IT", "Tim", "\u00e9t\u00e9"), _CONTRACTED)]
    texts += ["".join(draw.choices(draw.choice(_ALPHABETS), k=draw.randint(1, 40))) for _ in range(NUM_RANDOM // 2)]
    everything = "".join(_ALPHABETS)
    texts += ["".join(draw.choices(everything, k=draw.randint(1, 60))) for _ in range(NUM_RANDOM // 2)]
    texts.append("word " * 2000)
    return list(dict.fromkeys(texts))


def list_runs(vocab_size: int, seed: int = 0) -> Iterator[list[int]]:
    """Sequences of ids, as a model might say them."""
    draw = Random(seed)
    for _ in range(NUM_ID_RUNS):
        yield [draw.randrange(vocab_size) for _ in range(draw.randint(1, 12))]
