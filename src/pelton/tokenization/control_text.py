"""Keeps client text from forging control tokens such as an end of turn.

A chat template renders everything into one string, in which a client's "<|im_end|>" would look like the template's
own. So `protect` puts an invisible break after the first character of every place where client text spells a special
token, and after an end that the next text could complete. A tokenizer never finds a special token across a break, and
drops breaks before it looks at words: the ids are those of the same text spelled out as plain characters.

The break is two Unicode noncharacters, which are reserved for such internal use; a client text that contains the pair
keeps it. Linear in the text. A special token of a single character cannot be broken and is left out.
"""

import re
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any, final

BREAK = "\ufdd0\ufdd1"
_PREFIX_CHARS = 4


def remove_breaks(text: str) -> str:
    """The text as a reader should see it."""
    return text.replace(BREAK, "")


@final
class ControlText:
    """Finds spelled special tokens in text of others."""

    def __init__(self, special_texts: Iterable[str]) -> None:
        self._texts = frozenset(text for text in special_texts if len(text) > 1) | {BREAK}
        self._lengths = sorted({len(text) for text in self._texts})
        self._longest = self._lengths[-1]
        self._proper_prefixes = frozenset(text[:end] for text in self._texts for end in range(1, len(text)))
        starts = sorted({text[:_PREFIX_CHARS] for text in self._texts}, key=len, reverse=True)
        self._start = re.compile("(?=" + "|".join(map(re.escape, starts)) + ")")

    def protect(self, text: str) -> str:
        """`text` with a break in every special token it spells, alone or together with what may follow it."""
        cuts = [match.start() + 1 for match in self._start.finditer(text) if self._is_special_at(text, match.start())]
        end = self._open_end(text)
        if end:
            cuts.append(end)
        if not cuts:
            return text
        borders = [0, *sorted(set(cuts)), len(text)]
        return BREAK.join(text[a:b] for a, b in pairwise(borders))

    def protect_all(self, value: Any) -> Any:
        """A copy of a JSON value in which every string, keys included, is protected."""
        if isinstance(value, str):
            return self.protect(value)
        if isinstance(value, Mapping):
            return {self.protect_all(key): self.protect_all(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.protect_all(item) for item in value]
        return value

    def _is_special_at(self, text: str, start: int) -> bool:
        return any(text[start : start + length] in self._texts for length in self._lengths)

    def _open_end(self, text: str) -> int:
        """Where a break must stand so that what follows `text` cannot complete a special token; 0: nowhere.

        Templates strip white space from messages, so the end that counts is the one before trailing white space.
        """
        for stripped in (text, text.rstrip()):
            tail = stripped[-self._longest :]
            if any(tail[start:] in self._proper_prefixes for start in range(len(tail))):
                return len(stripped)
        return 0
