"""A thread of the engine process that says every `PULSE_S` how the step under way is doing, however long that takes.

The server takes silence for a process that was stopped or cannot run its interpreter. A step that hangs in native code
lets this thread run: it looks whether any other thread of the process is running or ready to run. If none is for
ASLEEP_S, the step waits for something that does not come; if they have used ten times the CPU time that a step of its
size is known to need (step_cost.py), it goes round in circles. Neither happens to a process that merely gets little of
a busy machine: its threads are ready to run, and their CPU time stands still.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, final

from pelton.core.messages import Pulse
from pelton.engine.loop import EngineLoop
from pelton.engine.process_state import read_state
from pelton.errors import TransferError

PULSE_S: Final = 0.3
ASLEEP_S: Final = 1.1
LEAST_CPU_S: Final = 4.0  # of a step that counts as going round in circles
TASKS: Final = Path("/proc/self/task")


@final
class Watch:
    """What is known of the step under way. Call `look` every `PULSE_S`."""

    def __init__(
        self,
        engine: EngineLoop,
        *,
        clock: Callable[[], float] = time.monotonic,
        cpu_clock: Callable[[], float] = time.process_time,
        is_asleep: Callable[[], bool] | None = None,
    ) -> None:
        self._engine = engine
        self._clock = clock
        self._cpu_clock = cpu_clock
        self._is_asleep = is_asleep or find_whether_asleep
        self._step_started_s: float | None = None
        self._asleep_since_s: float | None = None
        self._cpu_s = 0.0

    def look(self) -> Pulse:
        """How the step is doing now."""
        now_s, started_s = self._clock(), self._engine.step_started_s
        if started_s is None or started_s != self._step_started_s:
            self._step_started_s, self._asleep_since_s, self._cpu_s = started_s, None, self._cpu_clock()
            return Pulse(0.0 if started_s is None else now_s - started_s)
        return Pulse(now_s - started_s, self._find_problem(now_s))

    def _find_problem(self, now_s: float) -> str:
        if not self._is_asleep():
            self._asleep_since_s = None
        elif self._asleep_since_s is None:
            self._asleep_since_s = now_s
        elif now_s - self._asleep_since_s >= ASLEEP_S:
            return "all its threads wait for something"
        cpu_s = self._cpu_clock() - self._cpu_s
        limit_s = self._engine.costs.find_limit(self._engine.work)
        if limit_s is not None and cpu_s > max(LEAST_CPU_S, limit_s):
            return (
                f"it has computed for {cpu_s:.0f} s of CPU time, and {limit_s:.1f} s were too long for a step like this"
            )
        return ""


def find_whether_asleep() -> bool:
    """Whether no thread of this process but the calling one runs, could run, or waits for a disk. Linux only."""
    me = threading.get_native_id()
    try:
        tasks = [task for task in TASKS.iterdir() if task.name != str(me)]
        return all(read_state(task / "stat") == "S" for task in tasks)
    except OSError:  # not Linux, or a thread ended while we looked
        return False


def start_pulse(engine: EngineLoop, send: Callable[[Pulse], None]) -> None:
    """Start the thread. It ends with the process, or when `send` raises OSError or TransferError."""
    watch = Watch(engine)

    def run() -> None:
        try:
            while True:
                time.sleep(PULSE_S)
                send(watch.look())
        except (OSError, TransferError):
            return  # the process ends

    threading.Thread(target=run, name="pulse", daemon=True).start()
