"""The clock of the file system, which stands still for some milliseconds between two ticks."""

from __future__ import annotations

import time
from pathlib import Path


def wait_for_tick(path: Path) -> None:
    """Until a write would get another time than the last one to `path`. Busy, for one tick (about 4 ms)."""
    scratch = path.with_name(path.name + ".tick")
    end_s = time.monotonic() + 5
    while True:
        scratch.write_bytes(b"")
        if scratch.stat().st_ctime_ns > path.stat().st_ctime_ns:
            scratch.unlink()
            return
        assert time.monotonic() < end_s, "the clock of the file system stands still"
