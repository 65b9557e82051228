import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.fakes import TinyModel

from pelton.bench import startup
from pelton.bench.startup import (
    count_runs,
    find_free_port,
    last_line,
    make_server_rows,
    make_start_rows,
    measure_startup,
    run_python,
    wait_until_healthy,
)
from pelton.errors import BackendError

START = {"import_s": 1.0, "open_s": 0.1, "load_s": 4.0, "first_token_s": 0.2, "tokenizer_s": 0.5, "process_s": 6.0}


@pytest.mark.cpu
def test_a_row_for_each_cost_of_a_start(tmp_path: Path):
    folder = TinyModel().write(tmp_path / "tiny")
    settings = {"num_threads": 1, "max_model_len": 128, "kv_cache_memory_bytes": "1MiB"}
    runs: list[int] = []
    rows = list(measure_startup(folder, settings, repeat=1, on_run=lambda: runs.append(1)))
    assert len(runs) == count_runs(1)
    found = {row["what"]: row for row in rows}
    assert list(found) == [
        *startup.COMMANDS,
        *startup.PHASES.values(),
        "whole process",
        "memory of an engine alone",
        "server ready",
        "memory of the server process",
        "memory of its engine process",
    ]
    assert all(value > 0 for row in rows for name, value in row.items() if name != "what")
    assert found["whole process"]["later_start_s"] > found["first token"]["later_start_s"]


@pytest.mark.unit
def test_the_first_start_stands_apart():
    later = [{**START, "load_s": load_s, "peak_bytes": 1e6} for load_s in (0.3, 0.1, 0.2)]
    rows = {row["what"]: row for row in make_start_rows([{**START, "peak_bytes": 5e6}, *later])}
    assert rows["load and pack the weights"] == {
        "what": "load and pack the weights",
        "first_start_s": 4.0,
        "later_start_s": 0.2,
    }
    assert rows["memory of an engine alone"]["peak_mb"] == 5.0


@pytest.mark.unit
def test_the_median_of_servers_and_the_most_memory():
    servers = [
        {"ready_s": ready_s, "server_bytes": mega * 1e6, "engine_bytes": 3e6}
        for ready_s, mega in ((3.0, 7), (1.0, 9), (2.0, 8))
    ]
    assert list(make_server_rows(servers)) == [
        {"what": "server ready", "s": 2.0},
        {"what": "memory of the server process", "peak_mb": 9.0},
        {"what": "memory of its engine process", "peak_mb": 3.0},
    ]


@pytest.mark.unit
def test_a_process_that_fails_says_why():
    with pytest.raises(BackendError, match=r"^bench startup: a process ended with 3: why$"):
        run_python(("-c", "import sys; print('x\\nwhy', file=sys.stderr); sys.exit(3)"), None)
    assert last_line(" \n") == "it said nothing"


@pytest.mark.unit
def test_a_server_that_ends_is_not_waited_for():
    process = subprocess.Popen([sys.executable, "-c", "pass"])
    process.wait(30)
    with pytest.raises(BackendError, match="the server ended before it was ready"):
        wait_until_healthy(find_free_port(), process, time.perf_counter())


@pytest.mark.unit
def test_a_server_that_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(startup, "TIMEOUT_S", 0.05)
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        with pytest.raises(BackendError, match=r"the server was not ready after 0\.05 s"):
            wait_until_healthy(find_free_port(), process, time.perf_counter())
    finally:
        process.communicate(b"\n", timeout=30)
