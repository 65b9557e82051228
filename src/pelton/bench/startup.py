"""What a start costs, each time in a fresh process: import, help, open, load, first token, server ready; and memory.

The first start finds an empty cache directory, the later ones what the first has left there. The files of the model
are in the page cache of the system for all but the very first. Medians over the later starts.
"""

from __future__ import annotations

import json
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pelton.bench.memory import list_children, read_peak_bytes
from pelton.bench.record import Row
from pelton.config.env import make_child_environment
from pelton.errors import BackendError

TIMEOUT_S = 600
POLL_S = 0.01
ENGINE_MODULE = "pelton.api.engine_main"
PHASES = {
    "import_s": "import of the engine",
    "open_s": "open the checkpoint",
    "load_s": "load and pack the weights",
    "first_token_s": "first token",
    "tokenizer_s": "make the tokenizer",
}

PROGRAM = "import sys; from pelton.cli.main import main; sys.exit(main(sys.argv[1:]))"
COMMANDS: Mapping[str, Sequence[str]] = {
    "python": ("-c", "pass"),
    "import pelton": ("-c", "import pelton"),
    "pelton --help": ("-c", PROGRAM, "--help"),
}


def measure_startup(
    path: Path, settings: Mapping[str, Any], *, repeat: int, on_run: Callable[[], None]
) -> Iterator[Row]:
    """A row for each cost of starting the model at `path`. `on_run` is called after each of `count_runs` processes."""
    for what, code in COMMANDS.items():
        yield {"what": what, "s": statistics.median(repeat_command(code, repeat, on_run))}
    with tempfile.TemporaryDirectory(prefix="pelton-bench-") as cache_dir:
        environment = make_child_environment(PELTON_CACHE=cache_dir)
        starts = []
        for _ in range(repeat + 1):
            starts.append(start_engine(path, settings, environment))
            on_run()
        yield from make_start_rows(starts)
        servers = []
        for _ in range(repeat):
            servers.append(start_server(path, settings, environment))
            on_run()
        yield from make_server_rows(servers)


def count_runs(repeat: int) -> int:
    """How many processes are started."""
    return len(COMMANDS) * repeat + repeat + 1 + repeat


def repeat_command(arguments: Sequence[str], repeat: int, on_run: Callable[[], None]) -> list[float]:
    """Seconds that Python took with `arguments`, each time in a fresh process."""
    times = []
    for _ in range(repeat):
        start_s = time.perf_counter()
        run_python(arguments, None)
        times.append(time.perf_counter() - start_s)
        on_run()
    return times


def run_python(arguments: Sequence[str], environment: Mapping[str, str] | None) -> str:
    """What Python prints. Raises BackendError with its last line if it fails."""
    command = [sys.executable, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, env=environment, check=False)
    if done.returncode != 0:
        raise BackendError(f"bench startup: a process ended with {done.returncode}: {last_line(done.stderr)}")
    return done.stdout


def last_line(text: str) -> str:
    """The line that says why a process failed."""
    return text.strip().rpartition("\n")[2] or "it said nothing"


def start_engine(path: Path, settings: Mapping[str, Any], environment: Mapping[str, str]) -> dict[str, float]:
    """Seconds of each phase of one start, and of the whole process."""
    start_s = time.perf_counter()
    output = run_python(("-m", "pelton.bench.startup_child", json.dumps(settings), str(path)), environment)
    found: dict[str, float] = json.loads(output)
    return {**found, "process_s": time.perf_counter() - start_s}


def make_start_rows(starts: Sequence[Mapping[str, float]]) -> Iterator[Row]:
    """The phases of the first start and of the later ones, and the most memory of any."""
    first, later = starts[0], starts[1:]
    for field, what in {**PHASES, "process_s": "whole process"}.items():
        yield {"what": what, "first_start_s": first[field], "later_start_s": median_of(later, field)}
    yield {"what": "memory of an engine alone", "peak_mb": max(start["peak_bytes"] for start in starts) / 1e6}


def start_server(path: Path, settings: Mapping[str, Any], environment: Mapping[str, str]) -> dict[str, float]:
    """Seconds until a server answers that it is healthy, and the peak memory of its processes."""
    port = find_free_port()
    flags = [part for name, value in settings.items() for part in (f"--{name.replace('_', '-')}", str(value))]
    command = [sys.executable, "-c", PROGRAM, "serve", str(path), "--port", str(port), *flags]
    start_s = time.perf_counter()
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(command, stdout=said, stderr=said, env=dict(environment))
        try:
            wait_until_healthy(port, process, start_s)
            ready_s = time.perf_counter() - start_s
            children = list_children(process.pid)
            engines = [pid for pid, line in children.items() if ENGINE_MODULE in line]
            return {
                "ready_s": ready_s,
                "server_bytes": read_peak_bytes(process.pid),
                "engine_bytes": sum(map(read_peak_bytes, engines)),
            }
        except BackendError as error:
            said.seek(0)
            raise BackendError(f"{error} {last_line(said.read())}") from None
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(TIMEOUT_S)


def wait_until_healthy(port: int, process: subprocess.Popen[bytes] | subprocess.Popen[str], start_s: float) -> None:
    """Return when GET /health answers. Raises BackendError if the process ends first, or takes too long."""
    while time.perf_counter() - start_s < TIMEOUT_S:
        if process.poll() is not None:
            raise BackendError("bench startup: the server ended before it was ready.")
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=1):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(POLL_S)
    raise BackendError(f"bench startup: the server was not ready after {TIMEOUT_S} s.")


def find_free_port() -> int:
    """A port that nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def make_server_rows(servers: Sequence[Mapping[str, float]]) -> Iterator[Row]:
    """When a server is ready, with what a start before it has left in the cache, and its memory."""
    yield {"what": "server ready", "s": median_of(servers, "ready_s")}
    yield {"what": "memory of the server process", "peak_mb": max(each["server_bytes"] for each in servers) / 1e6}
    yield {"what": "memory of its engine process", "peak_mb": max(each["engine_bytes"] for each in servers) / 1e6}


def median_of(runs: Sequence[Mapping[str, float]], field: str) -> float:
    """The value in the middle."""
    return statistics.median(run[field] for run in runs)
