"""Whatever happens to engines and readers, in any order: each request ends once, and has the tokens of one engine.

The client is the real one; the supervisor is a list of what was sent, and the engine a dictionary. No processes.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engine.fakes import compute_continuation, compute_next_token, make_request

from pelton.core.messages import Abort, Add, EngineFacts, Outputs, ToEngine, Working
from pelton.core.outputs import EngineStats, RequestOutput
from pelton.core.step import NewRequest, RequestId
from pelton.engine.process_client import ProcessClient

pytestmark = pytest.mark.unit

NUM_TOKENS = 6
EVENTS = ("step", "step", "step", "kill", "crash", "start", "come", "come", "come poison", "leave", "abort")
FACTS = EngineFacts(
    max_model_len=256,
    max_num_requests=8,
    max_num_batched_tokens=64,
    max_prefill_chunk=64,
    vocab_size=4096,
    block_size=4,
    num_blocks=64,
)


@dataclass
class Engine:
    """Takes what is sent, while it is up; a step gives a token to each of the `width` oldest."""

    is_up: bool = False
    num_restarts: int = 0
    width: int = 3
    requests: dict[RequestId, list[int]] = field(default_factory=dict)
    limits: dict[RequestId, int] = field(default_factory=dict)
    ended: list[RequestOutput] = field(default_factory=list)

    def problem(self) -> str | None:
        return None if self.is_up else "It is down."

    def refusal(self) -> str | None:
        return None

    async def wait_until_writable(self) -> None:
        return

    def send(self, message: ToEngine) -> None:
        if not self.is_up:
            return
        if isinstance(message, Add):
            new = message.request
            assert new.request_id not in self.requests, "it is sent twice to one engine"
            assert new.sampling.max_tokens is not None
            self.requests[new.request_id] = [*new.prompt_token_ids, *new.output_token_ids]
            self.limits[new.request_id] = len(new.prompt_token_ids) + new.sampling.max_tokens
        elif isinstance(message, Abort) and self.requests.pop(message.request_id, None) is not None:
            self.ended.append(RequestOutput(request_id=message.request_id, finish_reason="abort"))

    def stop(self) -> None:
        self.is_up = False
        self.num_restarts += 1
        self.requests.clear()
        self.ended.clear()


class World:
    """The client, its engine, and its readers."""

    def __init__(self) -> None:
        self.client, self.engine = ProcessClient(["none"], b""), Engine()
        self.client._supervisor = self.engine  # type: ignore[assignment]
        self.readers: dict[RequestId, asyncio.Task[list[RequestOutput]]] = {}
        self.requests: dict[RequestId, NewRequest] = {}
        self.left: set[RequestId] = set()
        self.aborted: set[RequestId] = set()

    async def read(self, request: NewRequest) -> list[RequestOutput]:
        return [output async for output in self.client.generate(request)]

    async def settle(self) -> None:
        for _ in range(4):
            await asyncio.sleep(0)

    def come(self, *, is_poison: bool) -> None:
        number = len(self.requests)
        request = make_request(str(number), [7 if is_poison else 8, number], NUM_TOKENS)
        self.requests[request.request_id] = request
        self.readers[request.request_id] = asyncio.create_task(self.read(request))

    def is_poison(self, request_id: RequestId) -> bool:
        return self.requests[request_id].prompt_token_ids[0] == 7

    def step(self) -> None:
        """A step of the engine; one with poison in it ends the engine instead, after two tokens."""
        engine = self.engine
        outputs, engine.ended = list(engine.ended), []
        chosen = list(engine.requests)[: engine.width]
        self.client.on_message(Working(tuple(chosen)))
        if any(self.is_poison(request_id) and len(engine.requests[request_id]) >= 4 for request_id in chosen):
            self.down(is_external=False)
            return
        for request_id in chosen:
            tokens = engine.requests[request_id]
            tokens.append(compute_next_token(tokens))
            is_done = len(tokens) == engine.limits[request_id]
            outputs.append(
                RequestOutput(
                    request_id=request_id, token_ids=(tokens[-1],), finish_reason="length" if is_done else None
                )
            )
            if is_done:
                del engine.requests[request_id]
        self.client.on_message(Outputs(tuple(outputs), EngineStats()))

    def down(self, *, is_external: bool) -> None:
        self.engine.stop()
        self.client.on_down("It went.", is_external=is_external)

    def up(self) -> None:
        self.engine.is_up = True
        self.client.on_up(FACTS)

    async def happen(self, event: str, number: int) -> None:
        """One event, if it can happen now."""
        live = [request_id for request_id, reader in self.readers.items() if not reader.done()]
        match event:
            case "step" if self.engine.is_up:
                self.step()
            case "kill" | "crash" if self.engine.is_up:
                self.down(is_external=event == "kill")
            case "start" if not self.engine.is_up:
                self.up()
            case "come" | "come poison":
                self.come(is_poison=event != "come")
            case "leave" if live:
                self.left.add(live[number % len(live)])
                self.readers[live[number % len(live)]].cancel()
            case "abort" if live:
                self.aborted.add(live[number % len(live)])
                await self.client.abort(live[number % len(live)])
        await self.settle()

    async def finish(self) -> None:
        """Go on without disturbance until everybody has ended."""
        for _ in range(200 + 20 * len(self.requests)):
            if all(reader.done() for reader in self.readers.values()) and not self.engine.requests:
                return
            await self.happen("step" if self.engine.is_up else "start", 0)
        raise AssertionError(f"it never ends: {self.engine}")

    def check(self) -> None:
        """Every answer."""
        for request_id, reader in self.readers.items():
            if request_id in self.left:
                continue
            outputs, request = reader.result(), self.requests[request_id]
            tokens = [token_id for output in outputs for token_id in output.token_ids]
            ends = [output.finish_reason for output in outputs if output.finish_reason is not None]
            assert len(ends) == 1
            assert outputs[-1].finish_reason == ends[0]
            assert tokens == compute_continuation(request.prompt_token_ids, NUM_TOKENS)[: len(tokens)]
            assert (ends[0] == "abort") == (request_id in self.aborted)
            if ends[0] == "length":
                assert len(tokens) == NUM_TOKENS


@settings(max_examples=150, deadline=None)
@given(
    events=st.lists(st.tuples(st.sampled_from(EVENTS), st.integers(0, 30)), max_size=60),
    width=st.integers(1, 5),
)
def test_any_order_of_events(events: list[tuple[str, int]], width: int) -> None:
    async def run() -> World:
        world = World()
        world.engine.width = width
        world.up()
        for event, number in events:
            await world.happen(event, number)
        await world.finish()
        return world

    world = asyncio.run(run())
    world.check()
    crashes = sum(event == "crash" for event, _ in events)
    for request_id, reader in world.readers.items():
        if request_id in world.left or request_id in world.aborted:
            continue
        end: Any = reader.result()[-1].finish_reason
        if world.is_poison(request_id):
            assert end == "error"
        elif end == "error":
            assert crashes, "only who was alone in an engine that failed by itself is blamed"
    assert len(world.client._live) == 0
