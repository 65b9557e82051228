"""A process that asked for it ends with the one that started it, even when it is stopped."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pelton.engine.process_state import read_state

pytestmark = [pytest.mark.cpu, pytest.mark.skipif(sys.platform != "linux", reason="Linux only")]

CHILD = """
import time
from pelton.engine.parent_death import end_with_parent
print(end_with_parent(), flush=True)
time.sleep(60)
"""
PARENT = f"""
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", {CHILD!r}], stdout=subprocess.PIPE, text=True, process_group=0)
print(child.stdout.readline().strip(), child.pid, flush=True)
time.sleep(60)
"""


def is_alive(pid: int) -> bool:
    """Whether the process runs or could."""
    try:
        return read_state(Path(f"/proc/{pid}/stat")) != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("is_stopped", [False, True])
def test_it_ends_with_its_parent(is_stopped: bool) -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        has_asked, pid = parent.stdout.readline().split()
        child = int(pid)
        assert has_asked == "True"
        if is_stopped:
            os.kill(child, signal.SIGSTOP)
        assert is_alive(child)
        parent.kill()
    deadline_s = time.monotonic() + 5
    while is_alive(child):
        assert time.monotonic() < deadline_s, "it outlives its parent"
        time.sleep(0.01)
