"""What answers under load say: latencies, speeds, and the speed while all users decode.

TTFT and E2E are taken from sending a request to its first and last text, as the client sees them; an inter-token
latency is the gap between two reads, shared by the events that the later one brought. Output speed counts everything
between the first request and the last answer, prompts too. The decode speed is that of the stretches in which all users
have their first token and none has its last: what a server makes of the engine's own speed at that batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pelton.bench.stream_client import Answer

Float64 = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadSummary:
    """One load's figures. Times in seconds; None where there is nothing to take them from."""

    num_answers: int
    num_errors: int
    first_error: str | None
    mean_prompt_tokens: float
    mean_output_tokens: float
    duration_s: float
    ttft_p50_s: float | None
    ttft_p99_s: float | None
    itl_p50_s: float | None
    itl_p99_s: float | None
    e2e_p50_s: float | None
    e2e_p99_s: float | None
    output_tokens_per_s: float
    decode_tokens_per_s: float | None


def summarize(answers: Sequence[Answer], concurrency: int | None) -> LoadSummary:
    """The figures of `answers`; `concurrency` None for an open loop, which has no decode speed."""
    good = [answer for answer in answers if answer.error is None]
    errors = [answer.error for answer in answers if answer.error is not None]
    duration_s = max(a.times_s[-1] for a in good) - min(a.start_s for a in answers) if good else 0.0
    ttft = quantiles([answer.ttft_s for answer in good])
    itl = quantiles(np.concatenate([get_gaps(answer) for answer in good]) if good else [])
    e2e = quantiles([answer.e2e_s for answer in good])
    num_output = sum(answer.num_output_tokens for answer in good)
    return LoadSummary(
        num_answers=len(good),
        num_errors=len(errors),
        first_error=errors[0] if errors else None,
        mean_prompt_tokens=float(np.mean([answer.num_prompt_tokens for answer in good])) if good else 0.0,
        mean_output_tokens=num_output / len(good) if good else 0.0,
        duration_s=duration_s,
        ttft_p50_s=ttft[0],
        ttft_p99_s=ttft[1],
        itl_p50_s=itl[0],
        itl_p99_s=itl[1],
        e2e_p50_s=e2e[0],
        e2e_p99_s=e2e[1],
        output_tokens_per_s=num_output / duration_s if duration_s else 0.0,
        decode_tokens_per_s=None if concurrency is None else compute_decode_speed(good, concurrency),
    )


def quantiles(values: Sequence[float] | Float64) -> tuple[float | None, float | None]:
    """The median and the 99th percentile, or None."""
    if len(values) == 0:
        return None, None
    p50, p99 = np.quantile(np.asarray(values), [0.5, 0.99])
    return float(p50), float(p99)


def get_gaps(answer: Answer) -> Float64:
    """The inter-token latencies of an answer: as many as events after the first read.

    >>> get_gaps(Answer(0.0, times_s=[1.0, 1.5, 2.5], counts=[1, 1, 2]))
    array([0.5, 0.5, 0.5])
    """
    counts = np.asarray(answer.counts[1:], np.int64)
    return np.repeat(np.diff(answer.times_s) / np.maximum(counts, 1), counts)


def compute_decode_speed(answers: Sequence[Answer], concurrency: int) -> float | None:
    """Tokens per second while `concurrency` answers are between their first and their last token; None if never."""
    spans = find_full_spans(answers, concurrency)
    full_s = sum(end_s - start_s for start_s, end_s in spans)
    if full_s <= 0:
        return None
    shares = [
        (end_s - start_s) / full_s * sum(compute_speed_within(answer, start_s, end_s) for answer in answers)
        for start_s, end_s in spans
    ]
    return float(sum(shares))


def find_full_spans(answers: Sequence[Answer], concurrency: int) -> list[tuple[float, float]]:
    """The stretches of time in which so many answers are between their first and their last text."""
    borders = [(a.times_s[0], 1) for a in answers] + [(a.times_s[-1], -1) for a in answers]
    spans: list[tuple[float, float]] = []
    num_live, full_since_s = 0, None
    for when_s, change in sorted(borders):
        num_live += change
        if num_live == concurrency and full_since_s is None:
            full_since_s = when_s
        elif num_live < concurrency and full_since_s is not None:
            spans.append((full_since_s, when_s))
            full_since_s = None
    return spans


def compute_speed_within(answer: Answer, start_s: float, end_s: float) -> float:
    """Tokens per second of one answer from its first to its last text in this stretch; 0 if there are not two.

    Taken between texts of the same answer, so that it does not matter where in a step the stretch ends.
    """
    times_s, counts = np.asarray(answer.times_s), np.asarray(answer.counts, np.int64)
    inside = np.flatnonzero((times_s >= start_s) & (times_s <= end_s))
    if len(inside) < 2:
        return 0.0
    tokens_per_event = answer.num_output_tokens / int(counts.sum())  # an event may carry several tokens
    seconds = float(times_s[inside[-1]] - times_s[inside[0]])
    return float(counts[inside[1:]].sum()) * tokens_per_event / seconds


def make_row(summary: LoadSummary, **about: Any) -> dict[str, Any]:
    """A row of results: what was sent, then the figures."""
    fields = {name: getattr(summary, name) for name in LoadSummary.__slots__}
    return {**about, **{name: value for name, value in fields.items() if name != "first_error" or value}}
