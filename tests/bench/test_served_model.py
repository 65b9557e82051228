"""A server in a process of its own, around a tiny model or around nothing."""

import os
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from tests.fakes import TinyModel

from pelton.bench.served_model import ServedModel, read_process_cpu_s, serve_model, wait_for_address
from pelton.errors import TransferError


@pytest.mark.cpu
def test_a_server_that_is_ready_and_then_ended(tmp_path: Path) -> None:
    folder = str(TinyModel().write(tmp_path / "tiny"))
    settings = {"model": folder, "num_threads": 1, "kv_cache_memory_bytes": "1MiB", "max_model_len": 64}
    with serve_model(settings) as served:
        with urllib.request.urlopen(f"{served.url}/ready", timeout=10) as response:
            assert response.status == 200
        cpu_s = served.read_cpu_s()
        assert cpu_s is not None
        assert all(each > 0 for each in cpu_s), "the server and its engine have both started"
    with pytest.raises(ProcessLookupError):
        os.kill(served.pid, 0)


@pytest.mark.cpu
def test_a_server_that_cannot_start(tmp_path: Path) -> None:
    serving = serve_model({"model": str(tmp_path / "nothing")})
    with pytest.raises(TransferError, match=r"did not become ready. The end of what it wrote: .*nothing"), serving:
        pass


@pytest.mark.unit
def test_its_last_words(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with log.open("wb") as stderr:
        process = subprocess.Popen([sys.executable, "-c", "raise SystemExit('no memory')"], stderr=stderr)
    with pytest.raises(TransferError, match="wrote: no memory"):
        wait_for_address(process, log)
    log.write_text("  address   http://127.0.0.1:123/v1   docs")
    assert wait_for_address(process, log) == "http://127.0.0.1:123"


@pytest.mark.unit
def test_cpu_time_of_processes() -> None:
    own = read_process_cpu_s(os.getpid())
    assert own is not None
    assert own >= 0
    assert read_process_cpu_s(2**31 - 1) is None
    assert ServedModel("", 2**31 - 1).read_cpu_s() is None
