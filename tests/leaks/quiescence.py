"""After thousands of requests of each kind nothing is left of them: no task, thread, file, process, block or object.

Run by test_quiescence.py in a process of its own: what other tests leave behind would be counted here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from tests.engine.fake_engine_main import Behaviour
from tests.http_adversary.wire import Line, connect, get, post
from tests.leaks.census import Census
from tests.server.engine_process import serving

from pelton.engine.process_client import ProcessClient
from pelton.server.state import ServerState

pytestmark = pytest.mark.cpu  # real servers and processes
NUM_REQUESTS = 1000
NUM_LINES = 8
Ask = Callable[[str, Line, int], Coroutine[Any, Any, None]]


def body(number: int, **more: Any) -> bytes:
    """A body no other is equal to, so that whatever is kept of it shows."""
    return post("/v1/completions", encode({"prompt": [5 + number % 900, number % 7], "max_tokens": 4} | more))


def encode(value: Any) -> bytes:
    return str(value).replace("'", '"').replace("True", "true").encode()


async def expect(line: Line, request: bytes, status: int) -> bytes:
    answer = await line.ask(request)
    assert answer.status == status, answer
    return answer.body


async def whole(_url: str, line: Line, number: int) -> None:
    await expect(line, body(number), 200)


async def stream(_url: str, line: Line, number: int) -> None:
    assert (await expect(line, body(number, stream=True, n=2), 200)).endswith(b"data: [DONE]\n\n")


async def wrong(_url: str, line: Line, number: int) -> None:
    await expect(line, body(number, temperature=9 + number), 400)
    await expect(line, body(number, **{f"unknown{number}": 1}), 400)
    await expect(line, get(f"/v1/models/{number}"), 404)
    await expect(line, get(f"/nothing/{number}"), 404)


async def too_long(_url: str, line: Line, number: int) -> None:
    await expect(line, body(number, max_tokens=100_000 + number), 400)


async def failed(_url: str, line: Line, number: int) -> None:
    request = post("/v1/completions", encode({"prompt": [1, 2, 3, 4, number % 900], "max_tokens": 4}))
    await expect(line, request, 500)


async def left(url: str, _line: Line, number: int) -> None:
    _, writer = await connect(url)
    writer.write(body(number, max_tokens=150, ignore_eos=True, stream=number % 2 == 0))
    await writer.drain()
    await asyncio.sleep(0.001 * (number % 4))
    writer.transport.abort()


async def half_sent(url: str, _line: Line, number: int) -> None:
    _, writer = await connect(url)
    request = body(number)
    writer.write(request[: 1 + number % len(request)])
    await writer.drain()
    writer.transport.abort()


async def salted(_url: str, line: Line, number: int) -> None:
    await expect(line, body(number, cache_salt=f"salt {number}", request_id=f"name{number}"), 200)


async def ask_many(url: str, ask: Ask, count: int) -> None:
    numbers = iter(range(count))

    async def work() -> None:
        line = Line(url)
        for number in numbers:
            await ask(url, line, number)
        await line.close()

    async with asyncio.TaskGroup() as group:
        for _ in range(NUM_LINES):
            group.create_task(work())


async def until_quiet(state: ServerState, client: ProcessClient) -> None:
    """Wait until nothing is under way, in either process."""
    for _ in range(1000):
        stats = client.stats()
        if not (state.admission.num_live or stats.num_running or stats.num_waiting or stats.is_busy):
            break
        await asyncio.sleep(0.01)
    else:
        raise AssertionError("requests are live though nobody waits for an answer")
    assert client.stats().num_blocks - client.stats().num_free_blocks == 0


async def find_leaks(before: Census, pid: int) -> list[str]:
    """What there is more of than before, and stays: a server notices in its own time that a client has gone."""
    leaks: list[str] = []
    for _ in range(30):
        leaks = Census.take(pid).find_leaks(before, slack=NUM_REQUESTS // 10)
        if not leaks:
            break
        await asyncio.sleep(0.1)
    return leaks


@pytest.mark.parametrize(
    "ask", [whole, stream, wrong, too_long, failed, left, half_sent, salted], ids=lambda a: a.__name__
)
def test_nothing_is_left(ask: Ask) -> None:
    async def run() -> None:
        async with serving(Behaviour(fault="nan"), max_num_queued_requests=100) as (state, client, http):
            url, pid = str(http.base_url), client.engine_pid
            assert pid is not None
            await ask_many(url, ask, 100)  # what is made once has been made
            await until_quiet(state, client)
            before = Census.take(pid)
            await ask_many(url, ask, NUM_REQUESTS)
            await until_quiet(state, client)
            leaks = await find_leaks(before, pid)
            assert not leaks, leaks
            assert client.engine_pid == pid

    asyncio.run(asyncio.wait_for(run(), 120))


def test_a_leak_would_be_seen() -> None:
    async def run() -> None:
        before = Census.take(1)
        kept = [[number] for number in range(1000)]
        task = asyncio.create_task(asyncio.sleep(60))
        leaks = Census.take(1).find_leaks(before, slack=100)
        assert [leak.partition(":")[0] for leak in leaks] == ["tasks", "builtins.list"]
        task.cancel()
        assert len(kept) == 1000

    asyncio.run(run())
