"""What this machine lets the process use: cores, memory and instruction sets.

Read from /proc and /sys, within the CPU affinity and the control groups of the process, so a container gets what it was
given and not what the machine has. Loads no native code, so it also works where the kernels do not.
"""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pelton.config.cgroup import read_available_bytes, read_num_cpus

_AVX2: Final = frozenset({"avx2", "fma", "f16c"})
_AVX512: Final = _AVX2 | {"avx512f", "avx512bw", "avx512dq", "avx512vl"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """The machine as far as this process may use it. Memory is what is free at the moment of probing."""

    machine: str  # x86_64, aarch64, ...
    cpu_name: str
    num_cpus: int  # logical CPUs
    num_cores: int  # physical cores: two threads of one core share its arithmetic units
    total_memory_bytes: int
    available_memory_bytes: int
    cpu_flags: frozenset[str]

    @property
    def isa(self) -> str:
        """The highest instruction set that kernels exist for: generic, avx2 or avx512."""
        if self.cpu_flags >= _AVX512:
            return "avx512"
        return "avx2" if self.cpu_flags >= _AVX2 else "generic"


def probe_hardware(root: Path = Path("/"), cpus: Collection[int] | None = None) -> Hardware:
    """What there is. `root` holds proc and sys; `cpus` are the ones the process may run on."""
    cpus = _get_affinity() if cpus is None else cpus
    quota = read_num_cpus(root)
    limit = math.inf if quota is None else max(1, math.ceil(quota))
    memory = _read_meminfo(root)
    group_bytes = read_available_bytes(root)
    available = memory.get("MemAvailable", memory.get("MemTotal", 0))
    info = _read_cpuinfo(root)
    return Hardware(
        machine=platform.machine(),
        cpu_name=info.get("model name", platform.processor() or "unknown"),
        num_cpus=int(min(len(cpus), limit)),
        num_cores=int(min(_count_cores(root, cpus), limit)),
        total_memory_bytes=memory.get("MemTotal", 0),
        available_memory_bytes=available if group_bytes is None else min(available, group_bytes),
        cpu_flags=frozenset(info.get("flags", info.get("Features", "")).split()),
    )


def _get_affinity() -> Collection[int]:
    if sys_affinity := getattr(os, "sched_getaffinity", None):  # Linux only
        return sorted(sys_affinity(0))
    return range(os.cpu_count() or 1)


def _count_cores(root: Path, cpus: Collection[int]) -> int:
    """Distinct (package, core) pairs among `cpus`; a CPU that does not say is a core of its own."""
    cores = set()
    for cpu in cpus:
        topology = root / f"sys/devices/system/cpu/cpu{cpu}/topology"
        try:
            cores.add(tuple((topology / name).read_text() for name in ("physical_package_id", "core_id")))
        except OSError:
            cores.add((str(cpu),))
    return max(1, len(cores))


def _read_meminfo(root: Path) -> dict[str, int]:
    """The fields of /proc/meminfo in bytes; the total alone where there is no such file."""
    try:
        lines = (root / "proc/meminfo").read_text().splitlines()
    except OSError:
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        return {"MemTotal": total}
    pairs = (line.split(":", 1) for line in lines if ":" in line)
    return {name: int(value.split()[0]) * 1024 for name, value in pairs if value.split()[1:] == ["kB"]}


def _read_cpuinfo(root: Path) -> dict[str, str]:
    """The first processor's fields of /proc/cpuinfo."""

    def pairs() -> Iterator[tuple[str, str]]:
        with (root / "proc/cpuinfo").open(errors="replace") as lines:
            for line in lines:
                if not line.strip():
                    return
                name, _, value = line.partition(":")
                yield name.strip(), value.strip()

    try:
        return dict(pairs())
    except OSError:
        return {}
