"""A server that runs out of files, or whose log cannot be written, goes on serving whom it can."""

from __future__ import annotations

import contextlib
import re
import resource
import socket
import subprocess
import time
from urllib.parse import urlsplit

import httpx
import pytest
from tests.end_to_end.served import PELTON, make_environment, serve
from tests.http_adversary.storm import FLAGS
from tests.security.test_surface import find_children

pytestmark = pytest.mark.cpu  # real processes
BODY = {"prompt": "hello", "max_tokens": 5, "temperature": 0, "ignore_eos": True}


def ask(url: str) -> str:
    answer = httpx.post(f"{url}/v1/completions", json=BODY, timeout=20)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["choices"][0]["text"])


def test_without_files_to_open_it_waits_and_then_goes_on() -> None:
    with serve("oracle", *FLAGS) as served:
        expected, url = ask(served.url), urlsplit(served.url)
        resource.prlimit(served.process.pid, resource.RLIMIT_NOFILE, (40, 40))
        held: list[socket.socket] = []
        with contextlib.ExitStack() as stack:
            kept = stack.enter_context(httpx.Client(base_url=served.url, timeout=20))
            assert kept.get("/health").status_code == 200
            for _ in range(60):
                held.append(
                    stack.enter_context(socket.create_connection((str(url.hostname), url.port or 0), timeout=5))
                )
            assert kept.get("/health").status_code == 200, "who has a connection keeps it"
            assert kept.post("/v1/completions", json=BODY).json()["choices"][0]["text"] == expected
        end_s = time.monotonic() + 20
        while time.monotonic() < end_s:
            with contextlib.suppress(httpx.HTTPError):
                assert ask(served.url) == expected
                break
        else:
            raise AssertionError("nobody is let in though files are free again")
        assert served.end() == 0


def test_a_log_that_nobody_reads_any_more_stops_nothing() -> None:
    command = [*PELTON, "serve", "oracle", "--port", "0", "--executor", "oracle", "--kv-cache-memory-bytes", "4M"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=make_environment()) as process:
        try:
            assert process.stderr is not None
            found = None
            while found is None:
                line = process.stderr.readline()
                assert line, "the server ended"
                found = re.search(r"(http://127\.0\.0\.1:\d+)/v1", line)
            url = found[1]
            process.stderr.close()
            assert len({ask(url) for _ in range(20)}) == 1
            assert httpx.get(f"{url}/nothing", timeout=20).status_code == 404
            assert find_children(process.pid)
            process.terminate()
            assert process.wait(20) == 0
        finally:
            process.kill()
