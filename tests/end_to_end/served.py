"""A real `pelton serve` in a process of its own, on a free port, ended when the test is done."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import IO

START_TIMEOUT_S = 60.0
END_TIMEOUT_S = 30.0
PELTON = (sys.executable, "-c", "import sys; from pelton.cli.main import main; sys.exit(main())")


class Served:
    """A running server: its URL, its process, and what it has written."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.url = ""
        self.lines: list[str] = []
        self._queue: SimpleQueue[str | None] = SimpleQueue()
        assert process.stderr is not None
        self._reader = threading.Thread(target=self._read, args=(process.stderr,), daemon=True)
        self._reader.start()

    def _read(self, stderr: IO[str]) -> None:
        for line in stderr:
            self._queue.put(line)
        self._queue.put(None)

    def wait_for(self, pattern: str, timeout_s: float = START_TIMEOUT_S) -> re.Match[str]:
        """The first line from here on that matches; fails if the process ends or is silent for too long."""
        while True:
            try:
                line = self._queue.get(timeout=timeout_s)
            except Empty as error:
                raise AssertionError(f"no {pattern!r} in time; so far:\n{''.join(self.lines)}") from error
            assert line is not None, f"the server ended before {pattern!r}:\n{''.join(self.lines)}"
            self.lines.append(line)
            if match := re.search(pattern, line):
                return match

    def end(self, number: int = signal.SIGTERM) -> int:
        """Send a signal and wait; the exit code."""
        self.process.send_signal(number)
        return self.process.wait(END_TIMEOUT_S)

    def read_rest(self) -> list[str]:
        """Every line of the log, once the process has ended."""
        self._reader.join(END_TIMEOUT_S)
        while (line := self._queue.get(timeout=END_TIMEOUT_S)) is not None:
            self.lines.append(line)
        return self.lines

    def find_engine(self) -> int:
        """The process id of the engine."""
        pid = self.process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        (engine,) = [child for child in children if b"engine_main" in Path(f"/proc/{child}/cmdline").read_bytes()]
        return int(engine)

    def clean_up(self) -> None:
        """Kill the server if it still runs, and wait until nobody writes to its stderr: its engine has ended too."""
        if self.process.poll() is None:
            self.process.kill()
        self._reader.join(END_TIMEOUT_S)
        assert not self._reader.is_alive(), "a process of the server has outlived it"


def make_environment() -> dict[str, str]:
    """This process's environment without the settings of Pelton, except where its models are."""
    return {k: v for k, v in os.environ.items() if k == "PELTON_CACHE" or not k.startswith("PELTON_")}


@contextmanager
def serve(model: Path | str, *flags: str) -> Iterator[Served]:
    """A server that is ready."""
    command = [*PELTON, "serve", str(model), "--port", "0", *flags]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=make_environment()) as process:
        served = Served(process)
        try:
            served.url = served.wait_for(r"(http://127\.0\.0\.1:\d+)/v1").group(1)
            yield served
        finally:
            served.clean_up()


def run_pelton(*arguments: str, timeout_s: float = 60.0, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    """The result of one command of the command line."""
    command = [*PELTON, *arguments]
    return subprocess.run(
        command, input=stdin, capture_output=True, text=True, env=make_environment(), timeout=timeout_s, check=False
    )
