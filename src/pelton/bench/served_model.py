"""`pelton serve` in a process of its own for a measurement, and the CPU time that it and its engine take."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pelton.errors import TransferError

START_TIMEOUT_S: Final = 600.0
END_TIMEOUT_S: Final = 40.0
NUM_QUOTED_LINES: Final = 12
COMMAND: Final = (sys.executable, "-c", "import sys; from pelton.cli.main import main; sys.exit(main())", "serve")
ADDRESS: Final = re.compile(r"(http://[0-9.]+:\d+)/v1")


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A server that is ready."""

    url: str
    pid: int

    def read_cpu_s(self) -> tuple[float, float] | None:
        """CPU seconds of the server process and of its children, the engine; None where the system does not tell."""
        own = read_process_cpu_s(self.pid)
        children_file = Path(f"/proc/{self.pid}/task/{self.pid}/children")
        try:
            children = [int(pid) for pid in children_file.read_text().split()]
        except OSError:
            return None
        times = [read_process_cpu_s(pid) for pid in children]
        return None if own is None else (own, sum(each or 0.0 for each in times))


def read_process_cpu_s(pid: int) -> float | None:
    """User and system time of a process so far."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def serve_model(settings: dict[str, Any]) -> Iterator[ServedModel]:
    """A server with these settings on a free port of this machine; ended when the block ends."""
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "serve.yaml"
        config.write_text(json.dumps({**settings, "host": "127.0.0.1", "port": 0}), encoding="utf-8")
        log = Path(folder) / "stderr"
        with log.open("wb") as stderr:
            process = subprocess.Popen([*COMMAND, "--config", str(config)], stdout=stderr, stderr=stderr)
        try:
            yield ServedModel(wait_for_address(process, log), process.pid)
        finally:
            end(process)


def wait_for_address(process: subprocess.Popen[bytes], log: Path, timeout_s: float = START_TIMEOUT_S) -> str:
    """The URL that the server names once it is ready. Raises TransferError with the end of what it wrote instead."""
    end_s = time.monotonic() + timeout_s
    while time.monotonic() < end_s:
        has_ended = process.poll() is not None
        text = log.read_text(encoding="utf-8", errors="replace")
        if found := ADDRESS.search(text):
            return found[1]
        if has_ended:
            break
        time.sleep(0.05)
    said = " | ".join(line.strip() for line in log.read_text(errors="replace").splitlines()[-NUM_QUOTED_LINES:])
    raise TransferError(f"pelton serve did not become ready. The end of what it wrote: {said or '(nothing)'}")


def end(process: subprocess.Popen[bytes]) -> None:
    """End the server, by force if it does not end itself."""
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(END_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
