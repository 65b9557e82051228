"""A fake server on a thread, for clients that block."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from tests.api.fakes import FakeEngineClient
from tests.server.http import make_state

from pelton.server.app import make_app


@contextmanager
def serve_in_thread(client: FakeEngineClient | None = None, app: Any = None, **settings: Any) -> Iterator[str]:
    """The URL of a server with a fake engine (or with `app`), ended when the block ends."""
    app = app or make_app(make_state(client, **settings))
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_config=None, lifespan="off", ws="none"))
    ready = threading.Event()

    async def run() -> None:
        serving = asyncio.create_task(server.serve())
        while not server.started and not serving.done():
            await asyncio.sleep(0.005)
        ready.set()
        await serving

    thread = threading.Thread(target=lambda: asyncio.run(run()), daemon=True)
    thread.start()
    assert ready.wait(10), "the server did not start"
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(10)
