"""What Linux says a process or a thread is doing."""

from __future__ import annotations

from pathlib import Path


def read_state(stat: Path) -> str:
    """The letter in a /proc/.../stat: R runs or could, S sleeps, D waits for a disk, T is stopped, Z has ended.

    Raises OSError if there is no such process, or no /proc.
    """
    return stat.read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()[0]  # names may hold ")"
