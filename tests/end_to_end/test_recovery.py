"""The real server while its processes die in every way: no answer changes, and nobody stays behind."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.end_to_end.served import Served, serve

from pelton.engine.process_state import read_state
from pelton.errors import InternalError
from pelton.oracle.chain import compute_answer

pytestmark = pytest.mark.cpu
FLAGS = ("--executor", "oracle:step_ms=4,token_us=30", "--kv-cache-memory-bytes", "4M", "--no-access-log")
DEADLINE_S = 60.0
NOTICED_S = 2.0  # within which whatever happened is known
ORPHAN_S = 2.0
CHAT = {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 4}


def expect(prompt: str, num_tokens: int, seed: int | None = None) -> str:
    """The whole answer."""
    return bytes(compute_answer(prompt.encode(), num_tokens, seed=seed)).decode()


class Streams:
    """Streamed completions of one server. Even ones are greedy, odd ones have a seed."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self.http = http
        self.num_tokens = 0
        self.restarts: list[int] = []
        self.tasks: list[asyncio.Task[None]] = []

    def start(self, count: int, num_tokens: int, prompt: str = "It begins like this") -> None:
        """Begin `count` streams, each of which must end with its exact answer."""
        first = len(self.tasks)
        self.tasks += [
            asyncio.create_task(self.check(f"{prompt} {number}", num_tokens, number if number % 2 else None))
            for number in range(first, first + count)
        ]

    async def check(self, prompt: str, num_tokens: int, seed: int | None) -> None:
        """One stream."""
        sampling = {"temperature": 0} if seed is None else {"temperature": 1, "seed": seed}
        body = {"prompt": prompt, "max_tokens": num_tokens, "ignore_eos": True, "stream": True, **sampling}
        async with self.http.stream("POST", "/v1/completions", json=body) as response:
            assert response.status_code == 200, await response.aread()
            events = [event async for event in self.read(response)]
        text = "".join(event["choices"][0]["text"] for event in events)
        assert text == expect(prompt, num_tokens, seed)
        assert events[-1]["choices"][0]["finish_reason"] == "length"
        self.restarts.append(events[-1]["timings"]["num_restarts"])

    async def read(self, response: httpx.Response) -> AsyncIterator[Any]:
        """The events of a stream, whose last must be [DONE]."""
        last = ""
        async for line in response.aiter_lines():
            if last.startswith("data: {"):
                self.num_tokens += 1
                yield json.loads(last.removeprefix("data: "))
            last = line or last
            if line == "":
                last = ""
            elif line == "data: [DONE]":
                return
        raise AssertionError("the stream ended without [DONE]")

    async def wait_for_tokens(self, count: int) -> None:
        """Return once `count` more events have come."""
        end_s, wanted = time.monotonic() + DEADLINE_S, self.num_tokens + count
        while self.num_tokens < wanted:
            assert time.monotonic() < end_s, "no tokens come"
            await asyncio.sleep(0.002)

    async def end(self) -> None:
        """All have ended as they should."""
        await asyncio.gather(*self.tasks)


@asynccontextmanager
async def streaming(served: Served) -> AsyncIterator[Streams]:
    """Streams that end, all of them, within DEADLINE_S."""
    limits = httpx.Limits(max_connections=200)
    async with httpx.AsyncClient(base_url=served.url, timeout=DEADLINE_S, limits=limits) as http:
        streams = Streams(http)
        async with asyncio.timeout(DEADLINE_S):
            yield streams
            await streams.end()


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    """For tests that do not end it."""
    with serve("oracle", *FLAGS, "--max-num-requests", "24") as served:
        yield served
        assert served.end() == 0


async def until_health(http: httpx.AsyncClient, status: int, within_s: float) -> None:
    """Wait until /health says `status`."""
    end_s = time.monotonic() + within_s
    while (await http.get("/health")).status_code != status:
        assert time.monotonic() < end_s, f"/health is not {status} after {within_s} s"
        await asyncio.sleep(0.01)


def find_engine(served: Served) -> int:
    """The engine that is there, or comes now."""
    end_s = time.monotonic() + DEADLINE_S
    while time.monotonic() < end_s:
        try:
            return served.find_engine()
        except (ValueError, OSError):  # none at the moment, or two: one of them is not yet reaped
            time.sleep(0.005)
    raise AssertionError("there is no engine")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP, signal.SIGSEGV])
def test_fifty_streams_outlive_their_engine_and_health_tells(server: Served, number: signal.Signals) -> None:
    async def run() -> None:
        async with streaming(server) as streams:
            streams.start(50, 120)  # 24 run, 26 wait
            await streams.wait_for_tokens(500)
            os.kill(find_engine(server), number)
            await until_health(streams.http, 503, NOTICED_S)
            streams.start(4, 20)  # while there is no engine: they wait
            await until_health(streams.http, 200, 10.0)
        assert len(streams.restarts) == 54
        assert sum(streams.restarts) >= 24

    asyncio.run(run())


def test_killed_twice_in_quick_succession(server: Served) -> None:
    async def run() -> None:
        async with streaming(server) as streams:
            streams.start(30, 80)
            await streams.wait_for_tokens(200)
            for _ in range(2):  # the second one while it loads
                engine = find_engine(server)
                os.kill(engine, signal.SIGKILL)
                while find_engine(server) == engine:
                    await asyncio.sleep(0.005)

    asyncio.run(run())


def test_killed_in_the_middle_of_a_prefill(server: Served) -> None:
    async def run() -> None:
        async with streaming(server) as streams:
            streams.start(6, 10, "a long prompt " * 600)  # 0.25 s of prefill each
            await asyncio.sleep(0.3)
            os.kill(find_engine(server), signal.SIGKILL)

    asyncio.run(run())


def test_who_leaves_while_there_is_no_engine_is_not_computed(server: Served) -> None:
    async def run() -> None:
        async with streaming(server) as streams:
            streams.start(10, 60)
            leaving = Streams(streams.http)
            leaving.start(10, 5000)
            await streams.wait_for_tokens(100)
            os.kill(find_engine(server), signal.SIGKILL)
            await until_health(streams.http, 503, NOTICED_S)
            for task in leaving.tasks:
                task.cancel()
            await asyncio.gather(*leaving.tasks, return_exceptions=True)
            await streams.end()
            metrics = (await streams.http.get("/metrics")).text
            running = [line for line in metrics.splitlines() if line.startswith("pelton:num_requests_running{")]
            assert [float(line.rsplit(" ", 1)[1]) for line in running] == [0.0]

    asyncio.run(run())


def test_a_drain_outlives_the_engine() -> None:
    async def run(served: Served) -> None:
        async with streaming(served) as streams:
            streams.start(20, 150)
            await streams.wait_for_tokens(100)
            os.kill(served.process.pid, signal.SIGTERM)
            while (await streams.http.get("/ready")).status_code != 503:
                await asyncio.sleep(0.005)
            assert (await streams.http.post("/v1/completions", json={"prompt": "a"})).status_code == 503
            os.kill(find_engine(served), signal.SIGKILL)

    with serve("oracle", *FLAGS, "--max-num-requests", "12") as served:
        asyncio.run(run(served))
        assert served.process.wait(DEADLINE_S) == 0


def find_children(served: Served) -> list[int]:
    """All processes that the server has started, from whichever thread."""
    tasks = Path(f"/proc/{served.process.pid}/task")
    return [int(pid) for task in tasks.iterdir() for pid in (task / "children").read_text().split()]


def is_alive(pid: int) -> bool:
    """Whether the process runs or could."""
    try:
        return read_state(Path(f"/proc/{pid}/stat")) != "Z"
    except OSError:
        return False


def stop(engine: int, _url: str) -> None:
    os.kill(engine, signal.SIGSTOP)


def hang(_engine: int, url: str) -> None:
    body = {"prompt": "\x01hang:0;", "max_tokens": 4}
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{url}/v1/completions", json=body, timeout=0.3)


def be_busy(_engine: int, url: str) -> None:
    body = {"prompt": "a", "max_tokens": 5000, "ignore_eos": True}
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{url}/v1/completions", json=body, timeout=0.3)


@pytest.mark.parametrize("prepare", [stop, hang, be_busy])
def test_a_killed_server_leaves_nobody_behind_and_its_port_is_free(prepare: Callable[[int, str], None]) -> None:
    with serve("oracle", *FLAGS) as served:
        assert httpx.post(f"{served.url}/v1/chat/completions", json=CHAT, timeout=20).status_code == 200
        children = find_children(served)
        assert len(children) == 2, "the engine, and the process that renders templates"
        prepare(find_engine(served), served.url)
        port = served.url.rpartition(":")[2]
        served.end(signal.SIGKILL)
        end_s = time.monotonic() + ORPHAN_S
        while any(map(is_alive, children)):
            assert time.monotonic() < end_s, "a process outlives its server"
            time.sleep(0.01)
        with serve("oracle", *FLAGS, "--port", port) as again:
            assert again.url == served.url


def test_the_template_process_is_replaced(server: Served) -> None:
    url = f"{server.url}/v1/chat/completions"
    first = httpx.post(url, json=CHAT, timeout=20).json()["choices"]
    (template,) = [pid for pid in find_children(server) if pid != find_engine(server)]
    os.kill(template, signal.SIGTERM)  # meant for the server, which drains: it goes on
    assert httpx.post(url, json=CHAT, timeout=20).json()["choices"] == first
    assert is_alive(template)
    os.kill(template, signal.SIGKILL)
    assert httpx.post(url, json=CHAT, timeout=20).json()["choices"] == first
    assert not is_alive(template)


@pytest.mark.parametrize("kind", ["hang", "exit"])
def test_health_tells_of_a_step_that_hangs_or_dies_in_time(server: Served, kind: str) -> None:
    async def run() -> None:
        async with streaming(server) as streams:
            streams.start(4, 300)
            await streams.wait_for_tokens(50)
            body = {"prompt": f"\x01{kind}:0;", "max_tokens": 4}
            bad = asyncio.create_task(streams.http.post("/v1/completions", json=body))
            await until_health(streams.http, 503, NOTICED_S + 0.2)  # 0.2 s until it is computed
            answer = await bad
            assert answer.status_code == 500
            assert "the second time alone" in answer.json()["error"]["message"]
            assert answer.headers["x-request-id"] in answer.text

    asyncio.run(run())


def test_a_server_whose_engine_cannot_start_again_says_so_and_ends(tiny_model: Path, tmp_path: Path) -> None:
    model = Path(shutil.copytree(tiny_model, tmp_path / "model"))

    async def run(served: Served) -> None:
        async with httpx.AsyncClient(base_url=served.url, timeout=DEADLINE_S) as http:
            body = {"prompt": "a", "max_tokens": 450, "ignore_eos": True}
            (model / "config.json").unlink()
            os.kill(find_engine(served), signal.SIGKILL)
            await until_health(http, 503, NOTICED_S)
            started_s = time.monotonic()
            calls = [http.post("/v1/completions", json=body) for _ in range(3)]
            for answer in await asyncio.gather(*calls):
                assert answer.status_code == 503
                assert "failed 6 times in a row and is not restarted" in answer.json()["error"]["message"]
            assert time.monotonic() - started_s > 1.0  # they waited, because restarts were under way

    with serve(model, "--num-threads", "1") as served:
        asyncio.run(asyncio.wait_for(run(served), DEADLINE_S))
        assert served.process.wait(DEADLINE_S) == InternalError.exit_code
        served.wait_for("the server has ended, because it has no engine any more")


def test_sampled_tokens_of_a_real_model_are_those_of_an_undisturbed_run(tiny_model: Path) -> None:
    common = {"max_tokens": 300, "ignore_eos": True, "logprobs": 2, "return_token_ids": True}
    bodies: list[dict[str, Any]] = [
        {"prompt": "a", "temperature": 0, "repetition_penalty": 1.3, **common},
        {"prompt": "b", "temperature": 1.1, "seed": 5, "top_p": 0.9, "n": 2, **common},
        {"prompt": "c", "temperature": 1.0, "frequency_penalty": 0.7, "presence_penalty": 0.5, **common},
        {"prompt": "d", "temperature": 0.8, "min_p": 0.02, "min_tokens": 50, "logit_bias": {"40": 3.0}, **common},
    ]

    async def ask(http: httpx.AsyncClient, body: dict[str, Any]) -> Any:
        answer = (await http.post("/v1/completions", json=body)).json()
        choices = [{key: value for key, value in each.items() if key != "timings"} for each in answer["choices"]]
        return choices, answer["timings"]["num_restarts"]

    async def run(served: Served) -> None:
        async with httpx.AsyncClient(base_url=served.url, timeout=DEADLINE_S) as http:
            undisturbed = [(await ask(http, body))[0] for body in bodies]
            tasks = [asyncio.create_task(ask(http, body)) for body in bodies]
            for _ in range(2):
                await asyncio.sleep(0.05)
                engine = find_engine(served)
                os.kill(engine, signal.SIGKILL)
                while find_engine(served) == engine:
                    await asyncio.sleep(0.005)
                await until_health(http, 200, DEADLINE_S)
            answers = await asyncio.gather(*tasks)
            assert [choices for choices, _ in answers] == undisturbed
            assert all(num_restarts >= 1 for _, num_restarts in answers)

    with serve(tiny_model, "--num-threads", "1") as served:
        asyncio.run(asyncio.wait_for(run(served), 2 * DEADLINE_S))
