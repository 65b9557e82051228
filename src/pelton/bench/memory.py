"""The most memory that a process has had, as the kernel counts it: resident pages, shared ones and mapped files too."""

from __future__ import annotations

import os
import resource
from pathlib import Path

PROC = Path("/proc")


def read_peak_bytes(pid: int | None = None, proc: Path = PROC) -> int:
    """The peak of process `pid`, by default this one. 0 if it has ended or the system does not tell."""
    try:
        lines = (proc / str(pid or os.getpid()) / "status").read_text().splitlines()
    except OSError:
        return 0 if pid is not None else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    peaks = [line.split()[1] for line in lines if line.startswith("VmHWM:")]
    return int(peaks[0]) * 1024 if peaks else 0


def list_children(pid: int, proc: Path = PROC) -> dict[int, str]:
    """The processes that `pid` has started and theirs, with their command lines."""
    parents: dict[int, int] = {}
    for stat in proc.glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()  # a name may hold spaces and brackets
        except OSError:
            continue  # it has ended
        parents[int(stat.parent.name)] = int(fields[1])
    found: dict[int, str] = {}
    nearest = [pid]
    while nearest:
        nearest = [child for child, parent in parents.items() if parent in nearest and child not in found]
        found |= {child: read_command(child, proc) for child in nearest}
    return found


def read_command(pid: int, proc: Path = PROC) -> str:
    """The command line of a process; empty if it has ended."""
    try:
        return (proc / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""
