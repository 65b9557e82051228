"""The real server and scheduler in virtual time, hundreds of seeds.

Whatever clients, wires and engines do: each request ends once, with its own tokens, and leaves nothing behind.
"""

from __future__ import annotations

import asyncio
import json
import random
from dataclasses import replace
from typing import Any

import pytest
import uvicorn
from tests.api.fakes import make_parts
from tests.engine.fakes import compute_continuation
from tests.http_adversary.wire import post
from tests.simulation.stepped_engine import BLOCK_SIZE, NUM_BLOCKS, SteppedClient
from tests.simulation.virtual_loop import run_virtually
from tests.simulation.wires import Wire
from uvicorn.server import ServerState as Connections

from pelton.api.text_engine import TextEngine
from pelton.server.app import make_app
from pelton.server.http_protocol import MAX_HEADER_BYTES, HttpProtocol
from pelton.server.state import ServerState

pytestmark = pytest.mark.unit
NUM_SEEDS = 200


def draw_body(draw: random.Random) -> dict[str, Any]:
    """What one client asks for; about one in five is refused."""
    return {
        "prompt": [[draw.randrange(2, 5) for _ in range(draw.randrange(1, 30))] for _ in range(draw.choice([1, 1, 2]))],
        "max_tokens": draw.choice([1, 3, 10, 40, 5000]),
        "n": draw.choice([1, 1, 2]),
        "stream": draw.random() < 0.6,
        "temperature": draw.choice([0, 0, 0, 9]),
        "ignore_eos": True,
        "return_token_ids": True,
    }


def check_answer(wire: Wire, body: dict[str, Any]) -> str:
    """How a request ended; raises AssertionError if not exactly once, or with wrong tokens."""
    if wire.has_left:
        return "left"
    (answer,) = wire.answers
    if answer.status != 200:
        is_wrong = body["temperature"] == 9 or body["max_tokens"] == 5000
        assert answer.status == 503 or (answer.status == 400 and is_wrong), answer
        assert set(answer.json()) == {"error"}
        return "refused"
    if body["stream"]:
        *events, done = answer.body.decode().removesuffix("\n\n").split("\n\n")
        assert done == "data: [DONE]"
        choices = [choice for event in events for choice in json.loads(event.removeprefix("data: "))["choices"]]
    else:
        choices = answer.json()["choices"]
    for index in range(len(body["prompt"]) * body["n"]):
        parts = [choice for choice in choices if choice["index"] == index]
        tokens = [token_id for part in parts for token_id in part["token_ids"]]
        assert tokens == compute_continuation(body["prompt"][index // body["n"]], body["max_tokens"])
        assert [part["finish_reason"] for part in parts if part["finish_reason"]] == ["length"]
    return "whole"


async def simulate(seed: int) -> list[str]:
    """One run. How its requests ended, and how often the engine died."""
    draw = random.Random(seed)
    client = SteppedClient(draw, death_rate=draw.choice([0.0, 0.0, 0.01, 0.1]))
    facts = replace_facts(client)
    parts = replace(make_parts(max_num_queued_requests=draw.choice([0, 4, 100])), client=client, facts=facts)
    state = ServerState.make(TextEngine(parts))
    config = uvicorn.Config(make_app(state), http=HttpProtocol, lifespan="off", log_config=None, access_log=False,
                            h11_max_incomplete_event_size=MAX_HEADER_BYTES)  # fmt: skip
    config.load()
    connections = Connections()
    bodies = [draw_body(draw) for _ in range(draw.randrange(1, 9))]
    wires = [Wire(draw, post("/v1/completions", json.dumps(body).encode(), "connection: close")) for body in bodies]

    async def live(wire: Wire) -> None:
        await asyncio.sleep(draw.choice([0.0, 0.01, 0.3]))
        await wire.live(HttpProtocol(config=config, server_state=connections, app_state={}))

    async with asyncio.timeout(600):  # of virtual time
        async with asyncio.TaskGroup() as group:
            for wire in wires:
                group.create_task(live(wire))
        while connections.tasks or client.engine.has_work:
            await asyncio.sleep(0.01)
    ends = [check_answer(wire, body) for wire, body in zip(wires, bodies, strict=True)]
    stats = client.stats()
    assert (len(client.live), state.admission.num_live, len(connections.connections)) == (0, 0, 0)
    assert (stats.num_running, stats.num_waiting, stats.num_free_blocks) == (0, 0, NUM_BLOCKS)
    state.metrics.ledger.check()
    await client.close()
    state.engine.close()
    assert len(asyncio.all_tasks()) == 1, "only the one that asks"
    return [*ends, *["death"] * client.num_deaths]


def replace_facts(client: SteppedClient) -> Any:
    facts = client.engine.make_facts()
    assert facts.block_size == BLOCK_SIZE
    return facts


def test_every_request_ends_exactly_once() -> None:
    ends: list[str] = []
    for seed in range(NUM_SEEDS):
        try:
            ends += run_virtually(simulate(seed))
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
    assert min(ends.count(end) for end in ("whole", "left", "refused", "death")) > NUM_SEEDS // 8


def test_the_same_seed_is_the_same_run() -> None:
    assert run_virtually(simulate(7)) == run_virtually(simulate(7))


def test_waiting_for_nothing_is_an_error() -> None:
    async def forever() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(AssertionError, match="nothing will ever happen"):
        run_virtually(forever())
