"""An engine in a process of its own that is loaded once and then answers, one JSON line for one JSON line.

The first line that it writes says what it is; after it, every request line has one answer line, `{"error": ...}` where
it failed. While another engine is measured it is frozen (SIGSTOP), because idle thread pools spin, and thawed a moment
before its turn. What it writes to stderr is kept in a file and quoted when it ends without being asked to.

It has a process group of its own, so its children freeze with it; when this process dies the group is orphaned, which
makes the kernel wake it, and it finds its stdin closed and ends.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, final

from pelton.errors import ConfigError, TransferError

THAW_S: Final = 0.2  # for threads that were stopped to be scheduled again and go back to waiting
END_TIMEOUT_S: Final = 10.0
START_TIMEOUT_S: Final = 900.0  # some engines compile for minutes
ANSWER_TIMEOUT_S: Final = 900.0
NUM_QUOTED_LINES: Final = 12
READ_BYTES: Final = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerFacts:
    """What an engine tells of itself once it is loaded."""

    engine: str
    version: str
    model: str
    precision: str  # what its weights are stored in, in its own words
    load_s: float


@final
class PeerProcess:
    """A started engine. Use it as a context manager: leaving ends the process."""

    def __init__(self, name: str, command: Sequence[str], *, sleep: Callable[[float], None] = time.sleep) -> None:
        self.name = name
        self._sleep = sleep
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115  closed by close()
        self._buffer = b""
        self._is_frozen = False
        try:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._stderr, process_group=0
            )
        except OSError as error:
            self._stderr.close()
            raise ConfigError(f"{name}: {command[0]} cannot be run ({error.strerror}). Name its Python.") from error

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait_until_ready(self, timeout_s: float = START_TIMEOUT_S) -> PeerFacts:
        """What it says of itself. Raises TransferError, with the end of its stderr, if it says nothing of the kind."""
        answer = self._read_answer(timeout_s)
        try:
            return PeerFacts(**{**answer, "load_s": float(answer["load_s"])})
        except (KeyError, TypeError, ValueError) as error:
            raise self._failure(f"began with {json.dumps(answer)[:200]}, which is no description of itself") from error

    def ask(self, request: dict[str, Any], timeout_s: float = ANSWER_TIMEOUT_S) -> dict[str, Any]:
        """Its answer. Raises TransferError if there is none, or if the answer is an error."""
        assert not self._is_frozen, "a frozen process answers nothing"
        stdin = self._process.stdin
        assert stdin is not None, "stdin is a pipe"
        try:
            stdin.write(json.dumps(request).encode() + b"\n")
            stdin.flush()
        except BrokenPipeError as error:
            raise self._failure("has ended") from error
        answer = self._read_answer(timeout_s)
        if "error" in answer:
            raise TransferError(f"{self.name} could not do {json.dumps(request)[:200]}: {answer['error']}")
        return answer

    def freeze(self) -> None:
        """Stop all its threads. It keeps its memory."""
        if not self._is_frozen:
            self._signal(signal.SIGSTOP)
            self._is_frozen = True

    def thaw(self) -> None:
        """Let it run again, and wait until it has settled."""
        if self._is_frozen:
            self._is_frozen = False
            self._signal(signal.SIGCONT)
            self._sleep(THAW_S)

    def close(self) -> None:
        """End it: by closing its stdin, and by force if that is not enough."""
        if self._is_frozen:
            self._is_frozen = False
            self._signal(signal.SIGCONT)
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None, "both are pipes"
            with suppress(BrokenPipeError):
                stream.close()
        try:
            self._process.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._signal(signal.SIGKILL)
            self._process.wait()
        self._stderr.close()

    def __enter__(self) -> PeerProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _signal(self, number: int) -> None:
        with suppress(ProcessLookupError):  # it has ended; the next question finds that out
            os.killpg(self._process.pid, number)

    def _read_answer(self, timeout_s: float) -> dict[str, Any]:
        line = self._read_line(timeout_s)
        try:
            answer = json.loads(line)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise self._failure(f"wrote {line[:200]!r} to stdout, expected one line of JSON")
        return answer

    def _read_line(self, timeout_s: float) -> bytes:
        stdout = self._process.stdout
        assert stdout is not None, "stdout is a pipe"
        end_s = time.monotonic() + timeout_s
        while b"\n" not in self._buffer:
            readable, _, _ = select.select([stdout], [], [], max(0.0, end_s - time.monotonic()))
            if not readable:
                raise self._failure(f"gave no answer in {timeout_s:.0f} s")
            data = os.read(stdout.fileno(), READ_BYTES)
            if not data:
                code = self._process.wait(END_TIMEOUT_S)
                raise self._failure(f"ended with exit code {code}")
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def _failure(self, what: str) -> TransferError:
        self._stderr.seek(0)
        lines = self._stderr.read().decode("utf-8", "replace").rstrip().splitlines()[-NUM_QUOTED_LINES:]
        said = " | ".join(line.strip() for line in lines) or "(nothing)"
        return TransferError(f"{self.name} {what}. The end of what it wrote to stderr: {said}")


def find_peer_script(peer: str) -> Path:
    """The script that `peer` names: a path, or an engine's name in benchmarks/peers of the current folder."""
    for candidate in (Path(peer), Path("benchmarks/peers") / f"{peer}_peer.py"):
        if candidate.is_file():
            return candidate
    known = sorted(path.name.removesuffix("_peer.py") for path in Path("benchmarks/peers").glob("*_peer.py"))
    hint = f"Known here: {', '.join(known)}." if known else "Names are known in the root of Pelton's repository only."
    raise ConfigError(f"--peer: {peer!r} is neither a script nor the name of one. {hint}")
