"""This minute's limits: clock, arithmetic peaks, read bandwidth, barrier, and who else used the CPUs meanwhile.

A speed without the machine's limit of the same minute says little: virtual machines change their state while one
measures. The barrier tells the states apart: threads that share a cache meet in 30-150 ns, others take 300 ns and more,
and the bandwidth that two cores reach differs with it. A full calibration takes about 1.5 s, a quick one 0.3 s.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import Any, Literal

from pelton.backends.cpu import machine_limit
from pelton.backends.cpu.isa import get_isa
from pelton.bench.cpu_time import read_cpu_time
from pelton.config.hardware import probe_hardware

NEAR_BARRIER_S = 150e-9  # between the two states that were seen: 33-50 ns and 305-345 ns
DISTURBED_BARRIER_S = 5e-6  # no pair of cores is so far apart: a thread was not running
FULL_BYTES, QUICK_BYTES = 1 << 30, 1 << 29
SMALLEST_BYTES = 64 << 20
FULL_SECONDS, QUICK_SECONDS = 1.5, 0.3
MEMORY_SHARE = 4  # at most one part in so many of the memory that is free

# Shares of a full calibration's time; what is left goes into touching memory.
CLOCK_SHARE, PEAK_SHARE, READ_SHARE, BARRIER_SHARE = 0.03, 0.03, 0.06, 0.03

State = Literal["near", "far", "alone", "disturbed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """What a number of threads reaches together; None is not measured. A multiply-add is two operations."""

    num_threads: int
    int8_ops_per_s: float
    bfloat16_ops_per_s: float
    float32_ops_per_s: float
    read_bytes_per_s: float  # from pages of 2 MiB
    small_page_read_bytes_per_s: float | None = None  # from pages of 4 KiB


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """The limits of one moment. A quick calibration measures all threads only."""

    isa: str
    all_threads: Rates
    one_thread: Rates | None
    clock_hz: float | None
    barrier_s: float  # 0 with one thread
    state: State
    huge_page_share: float  # of the memory that was to lie in 2 MiB pages
    read_region_bytes: int
    steal_share: float
    other_share: float  # CPU time that other processes took
    int8_instruction: str
    bfloat16_instruction: str
    float32_instruction: str
    taken_s: float

    def to_json(self) -> dict[str, Any]:
        """Plain values for a file or a line."""
        return asdict(self)

    def peak_of(self, activation: str) -> float:
        """The peak for multiplications of this kind of number: int8, bfloat16 or float32."""
        rates = self.all_threads
        return {"int8": rates.int8_ops_per_s, "bfloat16": rates.bfloat16_ops_per_s}.get(
            activation, rates.float32_ops_per_s
        )


def calibrate(
    seconds: float = FULL_SECONDS, *, num_threads: int | None = None, read_bytes: int = FULL_BYTES
) -> Calibration:
    """Everything, in about `seconds`; touching `read_bytes` of memory may take longer than that."""
    hardware = probe_hardware()
    threads = num_threads or hardware.num_cores
    size_bytes = get_read_bytes(read_bytes, hardware.available_memory_bytes)
    counts = [1, threads]
    before, start_s = read_cpu_time(), time.perf_counter()
    clock_hz = machine_limit.measure_clock_hz(CLOCK_SHARE * seconds)
    barrier_s = measure_barrier(threads, BARRIER_SHARE * seconds)
    peaks = [measure_peaks(count, PEAK_SHARE * seconds) for count in counts]
    small, _ = machine_limit.measure_bandwidth(size_bytes, False, counts, READ_SHARE * seconds)
    huge, huge_share = machine_limit.measure_bandwidth(size_bytes, True, counts, READ_SHARE * seconds)
    one, every = (
        Rates(**peak, read_bytes_per_s=fast, small_page_read_bytes_per_s=slow)
        for peak, fast, slow in zip(peaks, huge, small, strict=True)
    )
    after = read_cpu_time()
    return Calibration(
        isa=get_isa(),
        all_threads=every,
        one_thread=one,
        clock_hz=clock_hz,
        barrier_s=barrier_s,
        state=get_state(barrier_s, threads),
        huge_page_share=huge_share,
        read_region_bytes=size_bytes,
        steal_share=after.steal_share(before),
        other_share=after.other_share(before),
        **get_instructions(),
        taken_s=time.perf_counter() - start_s,
    )


def calibrate_quickly(
    seconds: float = QUICK_SECONDS, *, num_threads: int | None = None, read_bytes: int = QUICK_BYTES
) -> Calibration:
    """What all threads reach, in about `seconds`: for between the legs of a comparison."""
    hardware = probe_hardware()
    threads = num_threads or hardware.num_cores
    size_bytes = get_read_bytes(read_bytes, hardware.available_memory_bytes)
    before, start_s = read_cpu_time(), time.perf_counter()
    barrier_s = measure_barrier(threads, BARRIER_SHARE * seconds)
    peaks = measure_peaks(threads, PEAK_SHARE * seconds)
    (bytes_per_s,), huge_share = machine_limit.measure_bandwidth(size_bytes, True, [threads], READ_SHARE * seconds)
    after = read_cpu_time()
    return Calibration(
        isa=get_isa(),
        all_threads=Rates(**peaks, read_bytes_per_s=bytes_per_s),
        one_thread=None,
        clock_hz=None,
        barrier_s=barrier_s,
        state=get_state(barrier_s, threads),
        huge_page_share=huge_share,
        read_region_bytes=size_bytes,
        steal_share=after.steal_share(before),
        other_share=after.other_share(before),
        **get_instructions(),
        taken_s=time.perf_counter() - start_s,
    )


def measure_peaks(num_threads: int, seconds: float) -> dict[str, Any]:
    """The three peaks of so many threads, `seconds` for each, as fields of `Rates`."""
    return {"num_threads": num_threads} | {
        f"{kind}_ops_per_s": machine_limit.measure_peak(kind, num_threads, seconds)
        for kind in ("int8", "bfloat16", "float32")
    }


def measure_barrier(num_threads: int, seconds: float) -> float:
    """Seconds from one barrier to the next; 0 with one thread, which waits for nobody."""
    return machine_limit.measure_barrier_s(num_threads, seconds) if num_threads > 1 else 0.0


def get_instructions() -> dict[str, Any]:
    """What each peak was measured with, as fields of `Calibration`."""
    return {f"{kind}_instruction": machine_limit.peak_instruction(kind) for kind in ("int8", "bfloat16", "float32")}


def get_state(barrier_s: float, num_threads: int) -> State:
    """Which of its states the machine is in.

    >>> get_state(40e-9, 2), get_state(320e-9, 2), get_state(1e-4, 2), get_state(0.0, 1)
    ('near', 'far', 'disturbed', 'alone')
    """
    if num_threads == 1:
        return "alone"
    if barrier_s > DISTURBED_BARRIER_S:
        return "disturbed"
    return "near" if barrier_s < NEAR_BARRIER_S else "far"


def get_read_bytes(wanted_bytes: int, available_bytes: int) -> int:
    """How much memory is read: less than wanted where memory is short, never so little that it lies in a cache."""
    return max(SMALLEST_BYTES, min(wanted_bytes, available_bytes // MEMORY_SHARE))
