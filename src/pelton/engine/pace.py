"""How many tokens of prompts the next step may compute, so that those who are being answered hardly notice.

Learns what a step takes without prompts, by the number of requests in it, and what each token of a prompt adds. A step
then gets as many tokens of prompts as fit into the target: what is asked for, or twice the time without them. While
others wait, that is the time with them too: a machine that answers few at a time for the sake of those few would get
less done. A size that was never seen without prompts is guessed, and shares errors with the prompts (normalized least
mean squares); where both are in every step they could not be told apart, so a time that was measured stays as it is.

Bookkeeping over times that it is told; the same times give the same pace, and the tokens that are chosen do not depend
on it, only when they come. O(log requests) per step.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from typing import Final, final

WEIGHT: Final = 0.2  # of the newest measurement
LEAST_CHUNK: Final = 8  # tokens that a step computes of prompts at least, so that they come to an end
ROUNDING: Final = 4  # so that little changes of the pace change nothing
TIMES: Final = 1.9  # so that what a client sees stays below twice
LEAST_PART: Final = 0.1  # of a step's time that is taken for either kind when the other is known to take it all
SHORTEST_S: Final = 1e-7  # a step that took less was not measured
UNLIMITED: Final = 1 << 30


@final
class Pace:
    """`target_s`: of a step with both kinds; 0: twice what it takes without prompts; infinity: no limit."""

    def __init__(self, target_s: float = math.inf) -> None:
        self._target_s = target_s
        self._decode_s: dict[int, float] = {}  # by the number of requests
        self._sizes: list[int] = []  # its keys in order
        self._guessed: set[int] = set()  # those of them that were never seen without prompts
        self._prompt_token_s = 0.0

    def learn(self, num_decoding: int, num_prompt_tokens: int, step_s: float) -> None:
        """A step of so many requests that extend themselves, and so many tokens of prompts, took `step_s`."""
        if step_s < SHORTEST_S or num_decoding + num_prompt_tokens == 0:
            return
        alone_s = self._estimate_decode_s(num_decoding)
        prompts_s = self._prompt_token_s * num_prompt_tokens
        if num_prompt_tokens == 0:
            known_s = None if num_decoding in self._guessed else self._decode_s.get(num_decoding)
            self._guessed.discard(num_decoding)
            self._set_decode_s(num_decoding, _blend(known_s, step_s))
        elif num_decoding == 0 or prompts_s == 0.0:
            token_s = max(step_s - alone_s, LEAST_PART * step_s) / num_prompt_tokens
            self._prompt_token_s = _blend(self._prompt_token_s or None, token_s)
        elif num_decoding not in self._decode_s:
            self._guessed.add(num_decoding)
            self._set_decode_s(num_decoding, max(step_s - prompts_s, LEAST_PART * step_s))
        elif num_decoding in self._guessed:
            error = WEIGHT * (step_s - alone_s - prompts_s) / (alone_s**2 + prompts_s**2)
            self._set_decode_s(num_decoding, alone_s + error * alone_s**2)
            self._prompt_token_s += error * prompts_s**2 / num_prompt_tokens
        else:  # few tokens tell little of what one takes
            weight = WEIGHT * min(1.0, prompts_s / alone_s)
            token_s = max(step_s - alone_s, LEAST_PART * step_s) / num_prompt_tokens
            self._prompt_token_s += weight * (token_s - self._prompt_token_s)

    def choose(self, num_decoding: int, num_waiting: int = 0) -> int:
        """Tokens of prompts for a step with so many requests that extend themselves, while so many could join them."""
        alone_s = self._estimate_decode_s(num_decoding)
        if num_decoding == 0 or math.isinf(self._target_s) or alone_s == 0.0 or self._prompt_token_s == 0.0:
            return UNLIMITED
        together_s = max(alone_s, self._estimate_decode_s(num_decoding + num_waiting))
        room_s = max((self._target_s or TIMES * together_s) - alone_s, 0.0)
        return max(LEAST_CHUNK, int(min(room_s / self._prompt_token_s, UNLIMITED)) // ROUNDING * ROUNDING)

    @property
    def prompt_tokens_per_s(self) -> float:
        """The speed of prompts; 0 before it is known."""
        return 1.0 / self._prompt_token_s if self._prompt_token_s else 0.0

    def estimate_decode_tokens_per_s(self, num_decoding: int) -> float:
        """The speed of so many requests that extend themselves, all together; 0 before it is known."""
        alone_s = self._estimate_decode_s(num_decoding)
        return num_decoding / alone_s if alone_s else 0.0

    def _estimate_decode_s(self, num_decoding: int) -> float:
        """On a straight line between the nearest sizes that are known; beyond, with the slope of all."""
        sizes, known = self._sizes, self._decode_s
        if num_decoding == 0 or not sizes:
            return 0.0
        index = bisect_left(sizes, num_decoding)
        if index == 0:
            return known[sizes[0]]
        if index == len(sizes):
            first, last = sizes[0], sizes[-1]
            slope_s = (known[last] - known[first]) / (last - first) if last > first else 0.0
            # In proportion at most: a part of a step is the same for any number of requests.
            return known[last] + (num_decoding - last) * min(max(slope_s, 0.0), known[last] / last)
        before, after = sizes[index - 1], sizes[index]
        share = (num_decoding - before) / (after - before)
        return known[before] + share * (known[after] - known[before])

    def _set_decode_s(self, num_decoding: int, step_s: float) -> None:
        if num_decoding not in self._decode_s:
            insort(self._sizes, num_decoding)
        self._decode_s[num_decoding] = step_s


def _blend(old: float | None, new: float) -> float:
    return new if old is None else old + WEIGHT * (new - old)
