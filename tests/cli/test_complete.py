"""`pelton complete`."""

from __future__ import annotations

import io
import sys

import pytest
from tests.api.fakes import ANSWER, BOS, FakeEngineClient
from tests.cli.server_thread import serve_in_thread

from pelton.cli.main import main

pytestmark = pytest.mark.cpu  # real servers


def test_one_text(capsys: pytest.CaptureFixture[str]) -> None:
    client = FakeEngineClient()
    with serve_in_thread(client) as url:
        assert main(["complete", "--url", url, "--quick", "def f"]) == 0
    assert capsys.readouterr().out == f"{ANSWER}\n"
    assert client.requests[0].sampling.max_tokens == 128


def test_all_of_a_pipe_is_one_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("a\nb\n"))
    client = FakeEngineClient()
    with serve_in_thread(client) as url:
        assert main(["complete", "--url", url, "--max-tokens", "3"]) == 0
    assert client.requests[0].prompt_token_ids == (BOS, *b"a\nb\n")


def test_an_empty_pipe_is_an_error(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    with serve_in_thread() as url:
        assert main(["complete", "--url", url]) == 2
    assert "stdin is empty" in capsys.readouterr().err
