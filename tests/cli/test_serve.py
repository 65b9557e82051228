"""`pelton serve` before and after the model."""

from __future__ import annotations

import dataclasses
import socket
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.api.fakes import make_parts

from pelton.cli import serve as module
from pelton.cli.main import main
from pelton.engine.started import Started, start_process

pytestmark = pytest.mark.unit


@pytest.fixture(autouse=True)
def no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """No process must be started here."""

    def fail(*_: Any) -> None:
        raise AssertionError("an engine is started")

    monkeypatch.setattr(module, "start_process", fail)


def test_a_taken_port_is_known_before_the_model_loads(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["serve", "tiny", "--port", str(port)]) == 2
    err = capsys.readouterr().err
    assert f"--port: {port} on 127.0.0.1 is in use" in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ([], "MODEL is missing"),
        (["tiny", "--prot", "1"], "Did you mean '--port'?"),
        (["tiny", "--port", "99999"], "too large"),
        (["tiny", "--port", "x"], "--port"),
        (["tiny", "--max-model-len", "x"], "--max-model-len"),
    ],
)
def test_wrong_use_is_one_line(flags: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", *flags]) == 2
    err = capsys.readouterr().err
    assert words in err
    assert err.count("\n") == 1


def test_the_start_says_what_a_person_wants_to_know() -> None:
    text = module.describe_start(make_parts(), "http://127.0.0.1:8000")
    assert "http://127.0.0.1:8000/v1" in text
    assert "curl http://127.0.0.1:8000/v1/chat/completions" in text
    assert "200 tokens for each request" in text
    assert "warning" not in text


def test_an_open_server_is_warned_about_and_a_key_is_never_shown() -> None:
    assert "--api-key" in module.describe_start(make_parts(host="0.0.0.0"), "u")
    parts = make_parts(host="0.0.0.0", api_key="s3cret")
    text = module.describe_start(dataclasses.replace(parts), "u")
    assert "warning" not in text
    assert "s3cret" not in text
    assert "Bearer KEY" in text


def test_the_process_ends_with_a_model_that_cannot_be_opened(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    all_started: list[Started] = []

    def start(_command: Any) -> Started:
        all_started.append(start_process([sys.executable, "-c", "import time; time.sleep(60)"]))
        return all_started[-1]

    monkeypatch.setattr(module, "start_process", start)
    assert main(["serve", str(tmp_path / "missing.gguf"), "--port", "0"]) != 0
    assert "missing.gguf" in capsys.readouterr().err
    assert [started.is_running for started in all_started] == [False]
