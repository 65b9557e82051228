"""What blocks of a comparison say, metric by metric: a ratio with its interval, and both engines' own figures.

Absolute figures are the medians over the blocks that are kept, beside the states in which the machine was then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from pelton.bench.comparison import Block, Work
from pelton.bench.ratio import Estimate, estimate_median

METRICS = ("prefill", "decode")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One metric of one work. Speeds in tokens per second over all requests; None if no block is kept."""

    metric: str
    work: Work
    num_kept: int
    num_dropped: int
    ratio: Estimate | None  # ours / theirs; above 1 we are faster
    our_tokens_per_s: float | None
    their_tokens_per_s: float | None
    read_bytes_per_s: float | None
    states: str  # how many of the kept blocks were in which state of the machine

    @property
    def title(self) -> str:
        """What it is called in tables and plots."""
        depth = f", depth {self.work.depth}" if self.work.depth else ""
        return f"{self.metric} B={self.work.batch}{depth}"

    def to_row(self) -> dict[str, Any]:
        """One row of results."""
        ratio = self.ratio
        return {
            "metric": self.metric,
            "batch": self.work.batch,
            "depth": self.work.depth,
            "ratio": ratio.median if ratio else None,
            "ratio_low": ratio.low if ratio else None,
            "ratio_high": ratio.high if ratio else None,
            "our_tokens_per_s": self.our_tokens_per_s,
            "their_tokens_per_s": self.their_tokens_per_s,
            "blocks_kept": self.num_kept,
            "blocks_dropped": self.num_dropped,
            "states": self.states,
            "read_gb_per_s": self.read_bytes_per_s / 1e9 if self.read_bytes_per_s else None,
        }


def judge(blocks: Sequence[Block]) -> list[Verdict]:
    """The verdicts on all works of `blocks`, in their order, prefill before decode."""
    works = list(dict.fromkeys(block.work for block in blocks))
    return [_judge_one(metric, work, [b for b in blocks if b.work == work]) for work in works for metric in METRICS]


def _judge_one(metric: str, work: Work, blocks: Sequence[Block]) -> Verdict:
    kept = [block for block in blocks if block.dropped is None]
    tokens = work.num_prefill_tokens if metric == "prefill" else work.num_decode_tokens
    ours = [block.get_seconds("ours", metric) for block in kept]
    theirs = [block.get_seconds("theirs", metric) for block in kept]
    ratios = [their_s / our_s for our_s, their_s in zip(ours, theirs, strict=True)]
    states = Counter(block.calibrations[0].state for block in kept)
    bandwidths = [each.all_threads.read_bytes_per_s for block in kept for each in block.calibrations]
    return Verdict(
        metric=metric,
        work=work,
        num_kept=len(kept),
        num_dropped=len(blocks) - len(kept),
        ratio=estimate_median(ratios) if ratios else None,
        our_tokens_per_s=_median_speed(tokens, ours),
        their_tokens_per_s=_median_speed(tokens, theirs),
        read_bytes_per_s=median(bandwidths) if bandwidths else None,
        states=", ".join(f"{count} {state}" for state, count in sorted(states.items())),
    )


def _median_speed(num_tokens: int, seconds: Sequence[float]) -> float | None:
    return num_tokens / median(seconds) if seconds else None
