"""Questions about named prefixes: what the engine answers, and what a client makes of it."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.engine.fake_engine_main import Behaviour
from tests.engine.fakes import compute_continuation, make_engine, make_request

from pelton.core.messages import ListPrefixes, PinPrefix, PrefixAnswer, PrefixQuestion
from pelton.core.outputs import PrefixInfo
from pelton.engine.inprocess_client import InProcessClient
from pelton.engine.loop import EngineLoop
from pelton.engine.prefix_query import PrefixQueries, answer
from pelton.engine.process_client import ProcessClient
from pelton.engine.supervisor import Patience
from pelton.errors import CapacityError, InternalError, RateLimited, RequestError
from pelton.kvcache.block_cache import BlockCache
from pelton.kvcache.block_pool import BlockPool

pytestmark = pytest.mark.unit
INFO = PrefixInfo(name="a", num_tokens=8, num_cached_tokens=0, ttl_left_s=None)


def pin(engine: EngineLoop, prompt: range | tuple[int, ...], ttl_s: float | None = None) -> PrefixAnswer:
    question = PinPrefix(number=7, name="a", tenant="", cache_salt="", token_ids=tuple(prompt), ttl_s=ttl_s)
    engine.ask(question)
    (given,) = engine.take_answers()
    assert engine.take_answers() == []
    assert given.number == 7
    return given


def test_engine_keeps_a_prefix_while_others_use_all_of_its_pool() -> None:
    engine = make_engine(num_blocks=16, block_size=4)
    assert pin(engine, range(17)).prefixes == (
        PrefixInfo(name="a", num_tokens=16, num_cached_tokens=0, ttl_left_s=None),
    )
    list(engine.run([make_request("first", range(18), 1)]))
    for number in range(6):
        list(engine.run([make_request(str(number), 40, 2)]))
    (output,) = engine.run([make_request("second", range(18), 1)])
    assert output.num_cached_tokens >= 16


@pytest.mark.parametrize("num_prompt", [4, 60])
def test_request_that_needs_the_whole_pool_still_runs(num_prompt: int) -> None:
    engine = make_engine(num_blocks=16, block_size=4)
    list(engine.run([make_request("first", range(18), 1)]))
    assert pin(engine, range(16)).prefixes[0].num_cached_tokens == 16
    request = make_request("long", num_prompt, 64 - num_prompt)
    outputs = list(engine.run([request]))
    assert outputs[-1].finish_reason == "length"
    tokens = [token_id for output in outputs for token_id in output.token_ids]
    assert tokens == compute_continuation(request.prompt_token_ids, 64 - num_prompt)


def test_prefixes_end_also_while_requests_run() -> None:
    now_s = 0.0
    engine = make_engine(num_blocks=16, block_size=4)
    engine._clock = lambda: now_s
    list(engine.run([make_request("first", range(18), 1)]))
    pin(engine, range(16), ttl_s=5.0)
    assert engine.stats().num_free_blocks == 12
    now_s = 6.0
    list(engine.run([make_request("other", 5, 1)]))
    assert engine.stats().num_free_blocks == 16


def test_errors_are_answers() -> None:
    engine = make_engine(num_blocks=16, block_size=4)
    given = pin(engine, range(3))
    assert given.error_class == "RequestError"
    assert given.error.startswith("prefix 'a': 3 tokens")
    assert pin(engine, range(40)).error_class == "RateLimited"
    off = BlockCache(BlockPool(4, 4), is_enabled=False)
    question = PinPrefix(number=1, name="a", tenant="", cache_salt="", token_ids=(1, 2, 3, 4), ttl_s=None)
    assert "without prefix caching" in answer(off, question, 0.0).error
    assert answer(off, ListPrefixes(number=2, tenant=""), 0.0) == PrefixAnswer(number=2)


async def with_client(work: Callable[[InProcessClient], Coroutine[Any, Any, None]]) -> None:
    client = InProcessClient(make_engine(num_blocks=16, block_size=4))
    try:
        await work(client)
    finally:
        await client.close()


def test_client_pins_lists_and_releases() -> None:
    async def work(client: InProcessClient) -> None:
        info = await client.pin_prefix("a", "t", "", tuple(range(9)), 60.0)
        assert (info.num_tokens, info.num_cached_tokens) == (8, 0)
        assert [info.name for info in await client.list_prefixes("t")] == ["a"]
        assert await client.list_prefixes("u") == []
        with pytest.raises(RateLimited, match="at most 16 in all"):
            await client.pin_prefix("b", "t", "", tuple(range(12)), None)
        assert not await client.release_prefix("a", "u")
        assert await client.release_prefix("a", "t")
        assert not await client.release_prefix("a", "t")

    asyncio.run(with_client(work))


def test_closed_client_refuses() -> None:
    async def work(client: InProcessClient) -> None:
        await client.close()
        with pytest.raises(CapacityError, match="closed"):
            await client.list_prefixes("")

    async def run() -> None:
        client = InProcessClient(make_engine())
        await work(client)

    asyncio.run(run())


class Peer:
    """An engine that answers when it is told to."""

    def __init__(self) -> None:
        self.asked: list[PrefixQuestion] = []
        self.now_s = 0.0
        self.queries = PrefixQueries(self.asked.append, clock=lambda: self.now_s)

    async def pin(self, name: str, ttl_s: float | None = None) -> None:
        task = asyncio.create_task(
            self.queries.pin(name, tenant="t", cache_salt="s", token_ids=tuple(range(8)), ttl_s=ttl_s)
        )
        await asyncio.sleep(0)
        self.queries.deliver(PrefixAnswer(number=self.asked[-1].number, prefixes=(INFO,)))
        assert await task == INFO


def test_next_engine_is_told_the_names_that_hold() -> None:
    async def run() -> None:
        peer = Peer()
        await peer.pin("for ever")
        await peer.pin("long", 10.0)
        await peer.pin("short", 1.0)
        await peer.pin("released")
        task = asyncio.create_task(peer.queries.release("released", "t"))
        await asyncio.sleep(0)
        peer.queries.deliver(PrefixAnswer(number=peer.asked[-1].number, prefixes=(INFO,)))
        assert await task
        peer.asked.clear()
        peer.now_s = 4.0
        peer.queries.renew()
        told = [(question.number, question.name, question.ttl_s) for question in peer.asked]  # type: ignore[union-attr]
        assert told == [(0, "for ever", None), (0, "long", 6.0)]
        peer.queries.deliver(PrefixAnswer(number=0, prefixes=(INFO,)))  # nobody waits for it

    asyncio.run(run())


def test_questions_fail_with_their_engine() -> None:
    async def run() -> None:
        peer = Peer()
        task = asyncio.create_task(peer.queries.list_of("t"))
        await asyncio.sleep(0)
        peer.queries.fail_all("The engine has ended.")
        with pytest.raises(CapacityError, match="has ended"):
            await task
        strange = asyncio.create_task(peer.queries.list_of("t"))
        await asyncio.sleep(0)
        peer.queries.deliver(PrefixAnswer(number=peer.asked[-1].number, error="odd", error_class="Odd"))
        with pytest.raises(InternalError, match="odd"):
            await strange
        given_up = asyncio.create_task(peer.queries.list_of("t"))
        await asyncio.sleep(0)
        given_up.cancel()
        with pytest.raises(asyncio.CancelledError):
            await given_up
        peer.queries.deliver(PrefixAnswer(number=peer.asked[-1].number))

    asyncio.run(run())


def test_refused_pin_is_not_remembered() -> None:
    async def run() -> None:
        peer = Peer()
        task = asyncio.create_task(peer.queries.pin("a", tenant="t", cache_salt="", token_ids=(1,), ttl_s=None))
        await asyncio.sleep(0)
        number = peer.asked[-1].number
        peer.queries.deliver(PrefixAnswer(number=number, error="no", error_class="RequestError", param="prompt"))
        with pytest.raises(RequestError, match="no") as caught:
            await task
        assert caught.value.param == "prompt"
        peer.asked.clear()
        peer.queries.renew()
        assert peer.asked == []

    asyncio.run(run())


def test_names_whose_time_is_over_are_forgotten() -> None:
    async def run() -> None:
        peer = Peer()
        for number in range(100):
            await peer.pin(str(number), 1.0)
            peer.now_s += 1.0
        assert len(peer.queries._names) <= 2

    asyncio.run(run())


@pytest.mark.cpu
def test_names_outlive_the_engine_process() -> None:
    async def run() -> None:
        main = Path(__file__).parent / "fake_engine_main.py"
        config = msgspec.msgpack.encode(Behaviour())
        client = ProcessClient([sys.executable, str(main)], config, Patience(first_backoff_s=0.01, max_restarts=3))
        await client.start()
        try:
            prefix = tuple(range(2, 19))
            await client.pin_prefix("a", "", "", prefix, None)
            async for _ in client.generate(make_request("first", prefix, 2)):
                pass
            (info,) = await client.list_prefixes("")
            assert info.num_cached_tokens == 16
            assert client.engine_pid is not None
            os.kill(client.engine_pid, signal.SIGKILL)
            while client.num_restarts == 0 or client.health_problem() is not None:
                await asyncio.sleep(0.005)
            (info,) = await client.list_prefixes("")
            assert (info.name, info.num_tokens, info.num_cached_tokens) == ("a", 16, 0)
            assert await client.release_prefix("a", "")
        finally:
            await client.close()
        with pytest.raises(CapacityError, match="shutting down"):
            await client.list_prefixes("")

    asyncio.run(bounded(run()))


async def bounded(work: Coroutine[Any, Any, None]) -> None:
    await asyncio.wait_for(work, 60)
