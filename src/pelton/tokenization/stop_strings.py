"""Finds stop strings in text that arrives in pieces.

Definition, whatever the pieces: the stop string that is complete first wins, and of several that end at the same
character the longest. Text that may still become a stop string is held back, and nothing else is. Pieces need not
follow tokens. One automaton for each stop string (Knuth, Morris & Pratt 1977): linear in the text, however the stop
strings overlap themselves.

Not safe for several threads; one for each stream.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final


@dataclass(frozen=True, slots=True)
class Released:
    """Text that may go to the client, and the stop string that ended it, if one did."""

    text: str
    stop: str | None = None


@final
class StopStrings:
    """One stream. `include_stop`: a stop string that is found ends the text instead of being cut off."""

    def __init__(self, stops: Sequence[str], *, include_stop: bool = False) -> None:
        self._stops = [stop for stop in stops if stop]
        self._borders = [_compute_borders(stop) for stop in self._stops]
        self._matched = [0] * len(self._stops)
        self._include_stop = include_stop
        self._held = ""
        self._is_over = False

    def push(self, text: str) -> Released:
        """Take more text; release what cannot be part of a stop string. After a stop everything is swallowed."""
        if self._is_over:
            return Released("")
        if not self._stops:
            return Released(text)
        buffer = self._held + text
        for index, char in enumerate(text):
            stop = self._advance(char)
            if stop is not None:
                return self._end(buffer, len(self._held) + index + 1, stop)
        num_held = 0 if self._include_stop else max(self._matched)
        self._held = buffer[len(buffer) - num_held :]
        return Released(buffer[: len(buffer) - num_held])

    def finish(self) -> Released:
        """No text follows: release what was held back."""
        text, self._held = self._held, ""
        self._is_over = True
        return Released(text)

    def _end(self, buffer: str, end: int, stop: str) -> Released:
        self._is_over = True
        self._held = ""
        return Released(buffer[: end if self._include_stop else end - len(stop)], stop)

    def _advance(self, char: str) -> str | None:
        """Feed one character to every automaton; the longest stop string that ends here."""
        found: str | None = None
        for index, stop in enumerate(self._stops):
            num_matched = self._matched[index]
            while num_matched and stop[num_matched] != char:
                num_matched = self._borders[index][num_matched - 1]
            num_matched += stop[num_matched] == char
            self._matched[index] = num_matched
            if num_matched == len(stop) and (found is None or len(stop) > len(found)):
                found = stop
        return found


def _compute_borders(stop: str) -> list[int]:
    """For each prefix of `stop`, the length of its longest proper prefix that is also its suffix."""
    borders = [0] * len(stop)
    length = 0
    for end in range(1, len(stop)):
        while length and stop[length] != stop[end]:
            length = borders[length - 1]
        length += stop[length] == stop[end]
        borders[end] = length
    return borders
