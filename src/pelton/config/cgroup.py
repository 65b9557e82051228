"""Limits that a container sets: how much memory and CPU time this process may use, below what the machine has.

Control groups nest, so the tightest limit on the path to the root counts. Versions 1 and 2 are read; a file that is
missing is a limit that is not set. Reads a few small files; changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

_UNLIMITED: Final = 2**60  # version 1 writes "no limit" as the largest multiple of the page size


def read_available_bytes(root: Path = Path("/")) -> int | None:
    """Memory that the control groups still allow, None if they set no limit. File cache that can be dropped counts."""
    left = []
    for folder in _folders(root, "memory"):
        limit = _read_number(folder / "memory.max", folder / "memory.limit_in_bytes")
        used = _read_number(folder / "memory.current", folder / "memory.usage_in_bytes")
        if limit is not None and limit < _UNLIMITED and used is not None:
            left.append(max(0, limit - used + _read_inactive_file_bytes(folder)))
    return min(left, default=None)


def read_num_cpus(root: Path = Path("/")) -> float | None:
    """CPUs' worth of time that the control groups allow, None if they set no limit."""
    allowed = []
    for folder in _folders(root, "cpu"):
        fields = _read_text(folder / "cpu.max").split()
        quota = int(fields[0]) if len(fields) == 2 and fields[0].isdigit() else None
        period = int(fields[1]) if len(fields) == 2 else _read_number(folder / "cpu.cfs_period_us")
        quota = quota if quota is not None else _read_number(folder / "cpu.cfs_quota_us")
        if quota is not None and quota > 0 and period:
            allowed.append(quota / period)
    return min(allowed, default=None)


def _folders(root: Path, controller: str) -> Iterator[Path]:
    """The process's groups of version 2 and of the version 1 `controller`, each from the leaf to the root."""
    mount = root / "sys/fs/cgroup"
    for line in _read_text(root / "proc/self/cgroup").splitlines():
        _, controllers, group = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        base = mount / controller if controllers else mount
        path = Path(group.lstrip("/"))
        for folder in (path, *path.parents):
            yield base / folder


def _read_inactive_file_bytes(folder: Path) -> int:
    stats = dict(line.split(" ", 1) for line in _read_text(folder / "memory.stat").splitlines() if " " in line)
    return int(stats.get("total_inactive_file", stats.get("inactive_file", "0")))


def _read_number(*paths: Path) -> int | None:
    """The number in the first of `paths` that holds one."""
    for path in paths:
        text = _read_text(path).strip()
        if text.lstrip("-").isdigit():
            return int(text)
    return None


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
