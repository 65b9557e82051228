"""What a process holds: tasks, threads, files, children, objects by type. Two of these say what has leaked between."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
from collections import Counter
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Census:
    """Counted at one moment."""

    tasks: int
    threads: int
    files: int
    engine_files: int
    children: int
    objects: Counter[str]

    @classmethod
    def take(cls, engine_pid: int) -> Census:
        """Of this process and its engine, inside the event loop."""
        for _ in range(3):
            gc.collect()
        return cls(
            tasks=len(asyncio.all_tasks()),
            threads=threading.active_count(),
            files=count_files(os.getpid()),
            engine_files=count_files(engine_pid),
            children=len(find_children()),
            objects=Counter(f"{type(thing).__module__}.{type(thing).__qualname__}" for thing in gc.get_objects()),
        )

    def find_growth(self, before: Census, slack: int) -> dict[str, int]:
        """Types of which there are more than `slack` objects more than before."""
        return {name: more for name, count in self.objects.items() if (more := count - before.objects[name]) > slack}

    def find_leaks(self, before: Census, slack: int) -> list[str]:
        """Everything that there is more of. A connection that idles may have gone; none may have come."""
        leaks = [
            f"{name}: {getattr(before, name)} -> {getattr(self, name)}"
            for name in ("tasks", "threads", "files", "engine_files", "children")
            if getattr(self, name) > getattr(before, name)
        ]
        return leaks + [f"{name}: {more} more objects" for name, more in self.find_growth(before, slack).items()]


def count_files(pid: int) -> int:
    """Open files and sockets of a process."""
    return len(os.listdir(f"/proc/{pid}/fd"))


def find_children() -> set[int]:
    """Child processes, whichever thread started them."""
    tasks = Path("/proc/self/task").iterdir()
    return {int(pid) for task in tasks for pid in (task / "children").read_text().split()}
