"""Who had the CPUs of this machine between two looks at /proc/stat: this process, others, or another virtual machine.

A measurement is worth little if somebody else took a part of the CPUs; stolen time is what the hypervisor gave away.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

STAT = Path("/proc/stat")


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuTime:
    """Ticks of all CPUs together since the machine started, and of this process and its children."""

    total: int = 0
    busy: int = 0
    steal: int = 0
    own: float = 0.0

    def steal_share(self, before: CpuTime) -> float:
        """The part of the CPUs' time since `before` that other virtual machines took."""
        return (self.steal - before.steal) / max(self.total - before.total, 1)

    def other_share(self, before: CpuTime) -> float:
        """The part that other processes of this machine took. Coarse: a tick is 10 ms."""
        other = (self.busy - before.busy) - (self.own - before.own)
        return max(0.0, other / max(self.total - before.total, 1))


def read_cpu_time(stat: Path = STAT) -> CpuTime:
    """The times of this moment; zeros where the system has no such file."""
    times = os.times()
    own = (times.user + times.system + times.children_user + times.children_system) * os.sysconf("SC_CLK_TCK")
    try:
        first = stat.read_text().partition("\n")[0]
    except OSError:
        return CpuTime(own=own)
    user, nice, system, idle, iowait, irq, softirq, steal = (int(field) for field in first.split()[1:9])
    busy = user + nice + system + irq + softirq
    return CpuTime(total=busy + idle + iowait + steal, busy=busy, steal=steal, own=own)
