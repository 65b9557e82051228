"""`pelton serve MODEL`: the OpenAI API on a port, the engine in a process beside it.

The engine's process is started first of all, so that it imports its half while this one imports the server's: that is
why the heavy imports stand inside functions.
"""

from __future__ import annotations

import asyncio
import json
import socket
from functools import partial
from typing import TYPE_CHECKING

import click

from pelton import __version__
from pelton.api.engine_command import ENGINE_COMMAND
from pelton.cli.options import config_options, get_model
from pelton.config.schema import EngineConfig
from pelton.config.user_config import UserConfig
from pelton.engine.started import Started, start_process
from pelton.observability.log import setup_logging
from pelton.server.listen import bind_socket, describe_address

if TYPE_CHECKING:
    from pelton.api.parts import EngineParts
    from pelton.server.tracing import Tracing

LOOPBACK = ("127.0.0.1", "::1", "localhost")


@click.command()
@config_options("model", "cache", "scheduler", "runner", "server", "log")
def serve(asked: UserConfig) -> None:
    """Serve MODEL over the OpenAI API.

    MODEL is a directory, a .gguf file, a Hugging Face repo id, or 'demo'.
    """
    get_model(asked)
    setup_logging(asked.get("log_level"), asked.get("log_format"))
    with bind_socket(asked.get("host"), asked.get("port")) as bound:  # before the model: a taken port is known at once
        started = start_process(ENGINE_COMMAND)
        try:
            asyncio.run(serve_model(asked, bound, started))
        finally:
            started.discard()


async def serve_model(asked: UserConfig, bound: socket.socket, started: Started) -> None:
    """Load the model, serve until a signal, and end the engine. Raises what loading raises."""
    click.echo(f"Pelton {__version__}: loading {asked.get('model')} ...", err=True)
    from pelton.api.assemble import open_model, start_in_child  # noqa: PLC0415
    from pelton.api.progress import StartBar  # noqa: PLC0415
    from pelton.api.text_engine import TextEngine  # noqa: PLC0415
    from pelton.server.lifecycle import Server  # noqa: PLC0415
    from pelton.server.state import ServerState  # noqa: PLC0415

    tracing = make_tracing(asked)
    with StartBar() as bar:
        parts = await start_in_child(await asyncio.to_thread(open_model, asked, bar), bar, started)
    engine = TextEngine(parts)
    try:
        state = ServerState.make(engine)
        if tracing is not None:
            state.on_request_end = partial(tracing.record, model_name=state.model_name)
        ready = describe_start(parts, describe_address(bound))
        await Server(state, bound, on_ready=lambda: click.echo(ready, err=True)).run()
    finally:
        await parts.client.close()
        engine.close()
        parts.close()
        if tracing is not None:
            tracing.close()


def make_tracing(asked: UserConfig) -> Tracing | None:
    """What sends traces, if they are wanted; before the model, so that what is missing is known at once."""
    endpoint = asked.get("otlp_traces_endpoint")
    if endpoint is None:
        return None
    from pelton.server.tracing import start_tracing  # noqa: PLC0415

    return start_tracing(endpoint)


def describe_start(parts: EngineParts, url: str) -> str:
    """What a person wants to know once the server is ready."""
    config, facts = parts.config, parts.facts
    num_tokens = facts.num_blocks * facts.block_size
    rows = [
        ("model", config.model.served_model_name[0]),
        ("address", f"{url}/v1" + (f"   docs: {url}/docs" if config.server.docs_page else "")),
        ("context", f"{facts.max_model_len} tokens for each request, prompt and output together"),
        ("batch", f"up to {facts.max_num_requests} requests at a time, {num_tokens} tokens in the KV cache"),
        ("compute", f"{config.runner.backend} backend, {config.runner.num_threads} threads"),
        ("try it", make_curl_line(config, url)),
        ("settings", f"pelton config serve {config.model.model}   prints every value with its reason"),
    ]
    if config.server.host not in LOOPBACK and not needs_key(config):
        rows.append(("warning", f"whoever reaches {config.server.host} can use this server: give it an --api-key"))
    lines = [f"Pelton {__version__} is ready", *(f"  {name:<9} {value}" for name, value in rows)]
    return "\n".join(lines)


def needs_key(config: EngineConfig) -> bool:
    """Whether clients must send a key."""
    return config.server.api_key is not None or config.server.api_keys_file is not None


def make_curl_line(config: EngineConfig, url: str) -> str:
    """A command that gets an answer."""
    body = json.dumps({"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 64})
    key = " -H 'authorization: Bearer KEY'" if needs_key(config) else ""
    return f"curl {url}/v1/chat/completions -H 'content-type: application/json'{key} -d '{body}'"
