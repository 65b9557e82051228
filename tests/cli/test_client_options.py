"""The flags of clients."""

from __future__ import annotations

import click
import pytest
from tests.cli.server_thread import serve_in_thread

from pelton.cli.client_options import ClientOptions, client_options
from pelton.cli.main import main

pytestmark = pytest.mark.unit


def test_a_key_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[ClientOptions] = []

    @click.command()
    @client_options
    def command(options: ClientOptions) -> None:
        seen.append(options)

    monkeypatch.setenv("PELTON_API_KEY", "k")
    with serve_in_thread(api_key="k") as url:
        command.main(["--url", url, "--temperature", "0"], standalone_mode=False)
        command.main(["--url", url, "--model-name", "alias"], standalone_mode=False)
    assert [(o.model, o.fields) for o in seen] == [("tiny", {"temperature": 0.0}), ("alias", {})]


def test_a_server_that_is_not_there_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["chat", "--url", "http://127.0.0.1:1", "-q", "hi"]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "pelton serve" in err
