"""What this machine can do at this moment, measured by native code: clock, peaks, read bandwidth, barrier.

Each figure is the best of several short runs, with the instruction set in use. The GIL is released meanwhile.
"""

from __future__ import annotations

from pelton.backends.cpu._native import (
    measure_bandwidth,
    measure_barrier_s,
    measure_clock_hz,
    measure_peak,
    peak_instruction,
)

__all__ = ["measure_bandwidth", "measure_barrier_s", "measure_clock_hz", "measure_peak", "peak_instruction"]
