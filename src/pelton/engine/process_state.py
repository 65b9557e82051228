"""What Linux says a process or a thread is doing. Both raise OSError if there is no such process, or no /proc."""

from __future__ import annotations

from pathlib import Path


def read_state(stat: Path) -> str:
    """The letter in a /proc/.../stat: R runs or could, S sleeps, D waits for a disk, T is stopped, Z has ended."""
    return stat.read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()[0]  # names may hold ")"


def read_is_dumping(status: Path) -> bool:
    """Whether a /proc/.../status says that the process has crashed and its memory is being written to a file."""
    lines = status.read_text(encoding="ascii", errors="replace").splitlines()
    return any(line.split() == ["CoreDumping:", "1"] for line in lines)
