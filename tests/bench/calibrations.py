"""A calibration with round numbers, for tests of what is done with one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pelton.bench.calibrate import Calibration, Rates

RATES = Rates(
    num_threads=2,
    int8_ops_per_s=1000e9,
    bfloat16_ops_per_s=500e9,
    float32_ops_per_s=250e9,
    read_bytes_per_s=50e9,
)


def make_calibration(**changes: Any) -> Calibration:
    """Two threads that share no cache; `changes` are of its fields."""
    quick = Calibration(
        isa="avx512",
        all_threads=RATES,
        one_thread=None,
        clock_hz=None,
        barrier_s=320e-9,
        state="far",
        huge_page_share=1.0,
        read_region_bytes=1 << 29,
        steal_share=0.0,
        other_share=0.01,
        int8_instruction="dot",
        bfloat16_instruction="pairs",
        float32_instruction="fma",
        taken_s=0.3,
    )
    return replace(quick, **changes)
