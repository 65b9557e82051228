"""Counts what one request takes and gives: usage for its client, and metrics once for each of its answers.

Invariant: every answer is counted exactly once, by how it ended; one that is cut off because its client left counts
as "abort". Usage is a function of the deltas alone, so a stream and a whole answer report the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, final

from pelton.api.output import TextDelta
from pelton.core.outputs import Timings
from pelton.observability.metrics import FinishedRequest, Metrics


@final
class Tally:
    """One request with `n` answers to each of its prompts."""

    def __init__(
        self,
        metrics: Metrics,
        num_prompt_tokens: Sequence[int],
        *,
        n: int,
        max_tokens: int | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        num_answers = len(num_prompt_tokens) * n
        self._metrics = metrics
        self._num_prompt_tokens = num_prompt_tokens
        self._n = n
        self._max_tokens = max_tokens
        self._clock = clock
        self._arrival_s = clock()
        self._num_output_tokens = [0] * num_answers
        self._num_cached_tokens = [0] * len(num_prompt_tokens)
        self._last_token_s: list[float | None] = [None] * num_answers
        self._first_token_s: list[float | None] = [None] * num_answers
        self._timings = [Timings()] * num_answers
        self._is_counted = [False] * num_answers

    def add(self, delta: TextDelta) -> None:
        """Take a delta in; counts the answer if it is the last."""
        now_s = self._clock()
        index = delta.index
        prompt = index // self._n
        self._num_cached_tokens[prompt] = max(self._num_cached_tokens[prompt], delta.num_cached_tokens)
        self._timings[index] = delta.timings
        if delta.token_ids:
            last_s = self._last_token_s[index]
            if last_s is None:
                self._first_token_s[index] = now_s
            else:
                self._metrics.observe_inter_token((now_s - last_s) / len(delta.token_ids))
            self._last_token_s[index] = now_s
            self._num_output_tokens[index] += len(delta.token_ids)
        if delta.finish_reason is not None:
            self._count(index, delta.finish_reason, now_s)

    def end(self, reason: str) -> None:
        """Count the answers that are not finished as ended by `reason`."""
        now_s = self._clock()
        for index, is_counted in enumerate(self._is_counted):
            if not is_counted:
                self._count(index, reason, now_s)

    @property
    def usage(self) -> dict[str, Any]:
        """The token counts so far, in OpenAI's words. A prompt counts once, whatever n is."""
        num_prompt, num_output = sum(self._num_prompt_tokens), sum(self._num_output_tokens)
        return {
            "prompt_tokens": num_prompt,
            "completion_tokens": num_output,
            "total_tokens": num_prompt + num_output,
            "prompt_tokens_details": {"cached_tokens": sum(self._num_cached_tokens)},
        }

    def _count(self, index: int, reason: str, now_s: float) -> None:
        self._is_counted[index] = True
        timings = self._timings[index]
        first_s = self._first_token_s[index]
        self._metrics.count_finished(
            FinishedRequest(
                finished_reason=reason,
                num_prompt_tokens=self._num_prompt_tokens[index // self._n],
                num_output_tokens=self._num_output_tokens[index],
                e2e_s=now_s - self._arrival_s,
                time_to_first_token_s=None if first_s is None else first_s - self._arrival_s,
                queue_s=_between(timings.arrival_s, timings.first_scheduled_s),
                prefill_s=_between(timings.first_scheduled_s, timings.first_token_s),
                decode_s=_between(timings.first_token_s, timings.last_token_s),
                n=self._n,
                max_tokens=self._max_tokens,
            )
        )


def _between(start_s: float, end_s: float) -> float | None:
    return max(0.0, end_s - start_s) if start_s and end_s else None
