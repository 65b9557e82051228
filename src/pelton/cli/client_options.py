"""The flags that `pelton chat` and `pelton complete` share."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click

from pelton.cli.http_client import ServerClient
from pelton.cli.sampling_option import MAX_TOKENS, TEMPERATURE
from pelton.config.env import get_environment

DEFAULT_URL = "http://127.0.0.1:8000"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOptions:
    """Which server, and what is asked of it besides the text."""

    client: ServerClient
    model: str
    fields: dict[str, Any]


def client_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a click command: adds the flags; it receives `options: ClientOptions`."""

    @click.option("--url", default=DEFAULT_URL, show_default=True, help="Address of the server.")
    @click.option("--model-name", default=None, help="Model to ask for. Default: the first one that is served.")
    @click.option("--api-key", default=None, help="Key to send; also PELTON_API_KEY.")
    @click.option("--max-tokens", type=MAX_TOKENS, default=None, help="Longest answer in tokens.")
    @click.option("--temperature", type=TEMPERATURE, default=None, help="0 takes the most likely token.")
    @functools.wraps(function)
    def command(
        url: str,
        model_name: str | None,
        api_key: str | None,
        max_tokens: int | None,
        temperature: float | None,
        **more: Any,
    ) -> Any:
        client = ServerClient(url, api_key or get_environment().api_key)
        asked = {"max_tokens": max_tokens, "temperature": temperature}
        fields = {name: value for name, value in asked.items() if value is not None}
        return function(
            options=ClientOptions(client=client, model=model_name or client.get_model(), fields=fields), **more
        )

    return command


def is_interactive() -> bool:
    """Whether a person types, so that a prompt and hints make sense."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def write(text: str) -> None:
    """Show text at once."""
    sys.stdout.write(text)
    sys.stdout.flush()
