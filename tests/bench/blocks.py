"""Blocks of a comparison that nobody has run."""

from __future__ import annotations

from dataclasses import replace

from tests.bench.calibrations import RATES, make_calibration

from pelton.bench.calibrate import Calibration, State
from pelton.bench.comparison import SIDES, Block, Leg, Work


def calibration_of(gb_per_s: float = 50.0, state: State = "far") -> Calibration:
    """A quick calibration that found this bandwidth and this state."""
    return make_calibration(all_threads=replace(RATES, read_bytes_per_s=gb_per_s * 1e9), state=state)


def make_block(work: Work, *, ours_s: float, theirs_s: float, dropped: str | None = None) -> Block:
    """Every leg of a side takes so long; decode twice as long as prefill."""
    seconds = {"ours": ours_s, "theirs": theirs_s}
    return Block(
        work=work,
        legs=tuple(Leg(side=side, prefill_s=seconds[side], decode_s=2 * seconds[side]) for side in SIDES),
        calibrations=(calibration_of(48), calibration_of(52)),
        steal_share=0.0,
        dropped=dropped,
    )
