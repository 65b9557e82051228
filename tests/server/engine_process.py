"""A server around a real engine process whose model is a hash."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import msgspec
from tests.api.fakes import make_parts
from tests.engine.fake_engine_main import Behaviour
from tests.server.http import on_a_port

from pelton.api.text_engine import TextEngine
from pelton.engine.process_client import ProcessClient
from pelton.engine.supervisor import Patience
from pelton.server.state import ServerState

MAIN = Path(__file__).parents[1] / "engine" / "fake_engine_main.py"
PATIENCE = Patience(first_backoff_s=0.01, max_restarts=50)


@contextlib.asynccontextmanager
async def serving(
    behaviour: Behaviour | None = None, **settings: Any
) -> AsyncIterator[tuple[ServerState, ProcessClient, httpx.AsyncClient]]:
    """The server's state, its engine, and a client of it; `settings` are those of the HTTP border."""
    config = msgspec.msgpack.encode(behaviour or Behaviour())
    client = ProcessClient([sys.executable, str(MAIN)], config, PATIENCE)
    facts = await client.start()
    try:
        parts = replace(make_parts(**settings), client=client, facts=facts)
        state = ServerState.make(TextEngine(parts))
        headers = {"authorization": f"Bearer {settings.get('api_key')}"}
        async with on_a_port(state) as (url, _), httpx.AsyncClient(base_url=url, timeout=20, headers=headers) as http:
            yield state, client, http
    finally:
        await client.close()
