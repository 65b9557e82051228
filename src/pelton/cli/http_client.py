"""Talks to a Pelton server, or any server of the OpenAI API: whole answers and streams.

The standard library is enough: one request at a time, and closing the connection is how an answer is stopped.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, final
from urllib.parse import urlsplit

from pelton.errors import CapacityError, ConfigError, RequestError, TransferError

TIMEOUT_S = 600.0  # a busy server may take long to send a first token


@final
class ServerClient:
    """The server at `url`, with or without /v1 at its end."""

    def __init__(self, url: str, api_key: str | None = None) -> None:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        try:
            port = parts.port
        except ValueError as error:
            raise ConfigError(f"--url: {url!r} has no valid port ({error}).") from error
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError(f"--url: {url!r} is not an address, expected one like http://127.0.0.1:8000.")
        self._is_secure = parts.scheme == "https"
        self._host, self._port = parts.hostname, port
        self._base = parts.path.rstrip("/").removesuffix("/v1")
        self._url = url
        self._headers = {"content-type": "application/json"}
        if api_key is not None:
            self._headers["authorization"] = f"Bearer {api_key}"

    def get_model(self) -> str:
        """The first model that the server names."""
        with self._request("GET", "/v1/models", None) as response:
            listed = self._decode(response.read())
        try:
            return str(listed["data"][0]["id"])
        except (KeyError, IndexError, TypeError) as error:
            raise TransferError(f"{self._url}: the list of models is not in OpenAI's form.") from error

    def stream(self, path: str, body: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield the chunks of a streamed answer. Closing the iterator stops the answer. Raises what the server says."""
        with self._request("POST", path, {**body, "stream": True}) as response:
            for raw in response:
                line = raw.strip()
                if not line.startswith(b"data: "):
                    continue
                data = line.removeprefix(b"data: ")
                if data == b"[DONE]":
                    return
                chunk = self._decode(data)
                if "error" in chunk:
                    raise TransferError(f"{self._url}: {chunk['error'].get('message', chunk['error'])}")
                yield chunk
        raise TransferError(f"{self._url}: the answer broke off before its end.")

    @contextmanager
    def _request(self, method: str, path: str, body: dict[str, Any] | None) -> Iterator[http.client.HTTPResponse]:
        make = http.client.HTTPSConnection if self._is_secure else http.client.HTTPConnection
        connection = make(self._host, self._port, timeout=TIMEOUT_S)
        try:
            payload = None if body is None else json.dumps(body).encode()
            connection.request(method, f"{self._base}{path}", payload, self._headers)
            response = connection.getresponse()
            if response.status != http.client.OK:
                raise self._make_error(response)
            yield response
        except ConnectionRefusedError as error:
            raise ConfigError(
                f"--url: nothing answers at {self._url}. Start a server with 'pelton serve MODEL', or give its address."
            ) from error
        except (OSError, http.client.HTTPException) as error:
            raise TransferError(f"{self._url}: the connection failed: {error or type(error).__name__}.") from error
        finally:
            connection.close()

    def _make_error(self, response: http.client.HTTPResponse) -> RequestError | CapacityError | TransferError:
        text = response.read(65536).decode("utf-8", "replace")
        try:
            message = json.loads(text)["error"]["message"]
        except (ValueError, KeyError, TypeError):
            message = f"status {response.status}: {text[:200]}"
        if response.status in (429, 503):
            return CapacityError(f"{self._url}: {message}")
        if response.status >= 500:
            return TransferError(f"{self._url}: {message}")
        return RequestError(f"{self._url}: {message}")

    def _decode(self, data: bytes) -> dict[str, Any]:
        try:
            value = json.loads(data)
        except ValueError as error:
            raise TransferError(f"{self._url}: the answer is not JSON. Is this a server of the OpenAI API?") from error
        return value if isinstance(value, dict) else {}
