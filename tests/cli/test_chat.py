"""`pelton chat` over a pipe and at a terminal."""

from __future__ import annotations

import io
import sys

import pytest
from tests.api.fakes import ANSWER, FakeEngineClient, text_tokens
from tests.cli.server_thread import serve_in_thread

from pelton.api.messages import parse_messages
from pelton.cli import chat as module
from pelton.cli.main import main

pytestmark = pytest.mark.cpu  # real servers


def echo(prompt: tuple[int, ...]) -> list[int]:
    """An answer that repeats the prompt."""
    return text_tokens(bytes(prompt).decode())


def test_one_question(capsys: pytest.CaptureFixture[str]) -> None:
    client = FakeEngineClient()
    with serve_in_thread(client) as url:
        assert main(["chat", "--url", url, "-q", "hi", "--temperature", "0", "--max-tokens", "50"]) == 0
    assert capsys.readouterr().out == f"{ANSWER}\n"
    assert (client.requests[0].sampling.temperature, client.requests[0].sampling.max_tokens) == (0.0, 50)


def test_every_line_of_a_pipe_is_a_message(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("one\n\n/reset\n/nonsense\ntwo\n/quit\nthree\n"))
    with serve_in_thread(FakeEngineClient(lambda r: echo(r.prompt_token_ids))) as url:
        assert main(["chat", "--url", url]) == 0
    out, err = capsys.readouterr()
    assert out == "[one]\n[two]\n"
    assert "/quit ends" in err


def test_the_conversation_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    bodies = []

    class Client:
        def stream(self, _path: str, body: dict[str, object]):  # type: ignore[no-untyped-def]
            bodies.append(body)
            yield {"choices": [{"delta": {"content": "yes"}}]}
            yield {"choices": []}

    options = module.ClientOptions(client=Client(), model="m", fields={})  # type: ignore[arg-type]
    conversation = module.Conversation(options, "be brief")
    for line in ("one", "two", "/system be long", "three"):
        conversation.take(line)
    contents = [[m["content"] for m in parse_messages(body["messages"])] for body in bodies]
    assert contents == [["be brief", "one"], ["be brief", "one", "yes", "two"], ["be long", "three"]]


def test_at_a_terminal_an_error_ends_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answers = iter(["hi", "/quit"])
    monkeypatch.setattr(module, "is_interactive", lambda: True)
    monkeypatch.setattr("builtins.input", lambda _prompt: next(answers))
    client = FakeEngineClient()
    client.problem = "it died"
    with serve_in_thread(client) as url:
        assert main(["chat", "--url", url]) == 0
    err = capsys.readouterr().err
    assert "tiny at your service" in err
    assert "it died" in err


def test_over_a_pipe_an_error_is_the_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("hi\n"))
    client = FakeEngineClient()
    client.problem = "it died"
    with serve_in_thread(client) as url:
        assert main(["chat", "--url", url]) == 75
