"""How many tokens of prompts the next step may compute, so that those who are being answered hardly notice.

Learns what a step takes without prompts, by the number of requests in it, and what each token of a prompt adds. A step
with both then gets as many tokens of prompts as fit into the target: twice the time without them, or what is asked
for. The tokens that are chosen do not depend on it, only when they come.

Bookkeeping over times that it is told; the same times give the same pace. O(1) per step.
"""

from __future__ import annotations

import math
from typing import Final, final

WEIGHT: Final = 0.2  # of the newest measurement
LEAST_CHUNK: Final = 8  # tokens that a step computes of prompts at least, so that they come to an end
ROUNDING: Final = 8  # so that little changes of the pace change nothing
TIMES: Final = 2.0
UNLIMITED: Final = 1 << 30


@final
class Pace:
    """`target_s`: of a step with both kinds; 0: twice what it takes without prompts; infinity: no limit."""

    def __init__(self, target_s: float = math.inf) -> None:
        self._target_s = target_s
        self._decode_s: dict[int, float] = {}  # by the number of requests
        self._prompt_token_s = 0.0

    def learn(self, num_decoding: int, num_prompt_tokens: int, step_s: float) -> None:
        """A step of so many requests that extend themselves, and so many tokens of prompts, took `step_s`."""
        if step_s <= 0.0 or num_decoding + num_prompt_tokens == 0:
            return
        if num_prompt_tokens == 0:
            self._decode_s[num_decoding] = _blend(self._decode_s.get(num_decoding), step_s)
        else:
            alone_s = self._estimate_decode_s(num_decoding)
            added_s = max(step_s - alone_s, 0.1 * step_s)  # a step with prompts is never cheaper than one without
            self._prompt_token_s = _blend(self._prompt_token_s or None, added_s / num_prompt_tokens)

    def choose(self, num_decoding: int) -> int:
        """Tokens of prompts that the next step may compute beside so many requests that extend themselves."""
        alone_s = self._estimate_decode_s(num_decoding)
        if num_decoding == 0 or math.isinf(self._target_s) or alone_s == 0.0 or self._prompt_token_s == 0.0:
            return UNLIMITED
        room_s = max((self._target_s or TIMES * alone_s) - alone_s, 0.0)
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
        if num_decoding == 0 or not self._decode_s:
            return 0.0
        known = self._decode_s.get(num_decoding)
        if known is None:
            known = self._decode_s[min(self._decode_s, key=lambda known: (abs(known - num_decoding), known))]
        return known


def _blend(old: float | None, new: float) -> float:
    return new if old is None else old + WEIGHT * (new - old)
