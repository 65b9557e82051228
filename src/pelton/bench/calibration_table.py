"""A calibration as rows for people: one figure each, with its unit and what it was measured with."""

from __future__ import annotations

from collections.abc import Iterator

from pelton.bench.calibrate import Calibration, Rates
from pelton.bench.record import Row

STATES = {
    "near": "the threads share a cache",
    "far": "the threads share no cache",
    "disturbed": "a thread was not running when the others waited for it",
    "alone": "one thread waits for nobody",
}


def make_rows(calibration: Calibration) -> list[Row]:
    """The figures that were measured."""
    c = calibration
    rows = []
    if c.clock_hz is not None:
        rows.append(make_row("clock", c.clock_hz / 1e9, "GHz", "a chain of additions"))
    for rates in (c.one_thread, c.all_threads):
        rows += [] if rates is None else make_rate_rows(c, rates)
    return [
        *rows,
        make_row("barrier", c.barrier_s * 1e9, "ns", f"state {c.state}: {STATES[c.state]}"),
        make_row("stolen", 100 * c.steal_share, "% of CPU time", "by other virtual machines"),
        make_row("others", 100 * c.other_share, "% of CPU time", "by other processes"),
    ]


def make_rate_rows(calibration: Calibration, rates: Rates) -> Iterator[Row]:
    """What a number of threads reaches."""
    threads = f"{rates.num_threads} thread{'s' if rates.num_threads > 1 else ''}"
    yield make_row(f"int8, {threads}", rates.int8_ops_per_s / 1e9, "GOP/s", calibration.int8_instruction)
    yield make_row(f"bfloat16, {threads}", rates.bfloat16_ops_per_s / 1e9, "GOP/s", calibration.bfloat16_instruction)
    yield make_row(f"float32, {threads}", rates.float32_ops_per_s / 1e9, "GOP/s", calibration.float32_instruction)
    size = f"over {calibration.read_region_bytes / 2**20:.0f} MiB"
    if rates.small_page_read_bytes_per_s is not None:
        yield make_row(f"read, {threads}", rates.small_page_read_bytes_per_s / 1e9, "GB/s", f"4 KiB pages, {size}")
    huge = f"2 MiB pages ({100 * calibration.huge_page_share:.0f} % given), {size}"
    yield make_row(f"read, {threads}", rates.read_bytes_per_s / 1e9, "GB/s", huge)


def make_row(what: str, value: float, unit: str, note: str) -> Row:
    """One line of the table."""
    return {"what": what, "value": value, "unit": unit, "note": note}
