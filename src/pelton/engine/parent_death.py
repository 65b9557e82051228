"""The kernel ends this process when the one that started it is gone, even if this one is stopped or hangs.

Counts from the thread that started the process: it must live as long as the process is wanted. Linux only; elsewhere
the end of the socket is what tells (process.py). prctl(2).
"""

from __future__ import annotations

import ctypes
import signal
import sys
from typing import Final

PR_SET_PDEATHSIG: Final = 1


def end_with_parent() -> bool:
    """Ask the kernel for it. False if it cannot."""
    if sys.platform != "linux":
        return False
    return bool(ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL) == 0)
