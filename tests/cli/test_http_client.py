"""The client of the command line against servers good and bad."""

from __future__ import annotations

import socket
from contextlib import closing
from typing import Any

import pytest
from tests.api.fakes import ANSWER, FakeEngineClient
from tests.cli.server_thread import serve_in_thread

from pelton.cli.http_client import ServerClient
from pelton.errors import CapacityError, ConfigError, EngineError, RequestError, TransferError

pytestmark = pytest.mark.cpu  # real servers
PATH = "/v1/completions"


def complete(client: ServerClient, **fields: Any) -> str:
    chunks = client.stream(PATH, {"prompt": "a", "max_tokens": 50, **fields})
    return "".join(chunk["choices"][0]["text"] for chunk in chunks)


@pytest.mark.parametrize("suffix", ["", "/", "/v1", "/v1/"])
def test_models_and_streams(suffix: str) -> None:
    with serve_in_thread(api_key="k") as url:
        client = ServerClient(url + suffix, "k")
        assert client.get_model() == "tiny"
        assert complete(client) == ANSWER


def test_errors_say_what_the_server_said() -> None:
    engine = FakeEngineClient()
    with serve_in_thread(engine, api_key="k") as url:
        with pytest.raises(RequestError, match="key is missing"):
            ServerClient(url).get_model()
        client = ServerClient(url, "k")
        with pytest.raises(RequestError, match="n: 0 is out of range"):
            complete(client, n=0)
        engine.fail_after = 1
        with pytest.raises(TransferError, match="on fire"):
            complete(client)
        engine.problem = "it died"
        with pytest.raises(CapacityError, match="it died"):
            complete(client)


@pytest.mark.parametrize("url", ["ftp://x", "http://", "http://x:99999", "http://x:y"])
def test_an_address_that_is_none(url: str) -> None:
    with pytest.raises(ConfigError, match="--url"):
        ServerClient(url)


def test_nobody_answers() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"127.0.0.1:{free.getsockname()[1]}"
        with pytest.raises(ConfigError, match="pelton serve"):
            ServerClient(url).get_model()


@pytest.mark.parametrize(
    ("status", "body", "error", "words"),
    [
        (200, b"<html>", TransferError, "not JSON"),
        (200, b"[]", TransferError, "not in OpenAI's form"),
        (500, b"oops", TransferError, "status 500: oops"),
        (404, b"{}", RequestError, "status 404"),
    ],
)
def test_servers_of_another_kind(status: int, body: bytes, error: type[EngineError], words: str) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": body})

    with serve_in_thread(app=app) as url, pytest.raises(error, match=words):
        ServerClient(url).get_model()


def test_a_stream_that_breaks_off_is_an_error() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b'data: {"choices":[]}\n\n'})

    with serve_in_thread(app=app) as url, closing(ServerClient(url).stream(PATH, {})) as chunks:  # type: ignore[type-var]
        assert next(chunks) == {"choices": []}
        with pytest.raises(TransferError, match="broke off"):
            next(chunks)
