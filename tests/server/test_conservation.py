"""Scrapes while requests run, leave, fail and are refused, and while their engine is killed: every one must balance."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
from typing import Any

import httpx
import pytest
from tests.engine.fake_engine_main import Behaviour
from tests.observability.exposition import parse_samples
from tests.server.engine_process import serving
from tests.server.http import read_events
from tests.server.test_tally import check_law

pytestmark = pytest.mark.cpu  # real processes


class Scraper:
    """Scrapes all the time and checks every scrape."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self.http = http
        self.num_scrapes = 0
        self.num_busy = 0  # scrapes that saw requests run
        self.last: dict[str, float] = {}

    async def scrape(self) -> dict[str, float]:
        samples = parse_samples((await self.http.get("/metrics")).text)
        check_law(samples)
        answered = sum(value for name, value in samples.items() if name.startswith("http_requests_total"))
        assert samples["http_requests_received_total"] == samples["http_requests_in_progress"] + answered
        for name, value in self.last.items():
            if "_total" in name or "_count" in name or "_bucket" in name:
                assert samples[name] >= value, f"{name} went back from {value} to {samples[name]}"
        self.last = samples
        self.num_scrapes += 1
        self.num_busy += samples["num_requests_running"] > 0
        return samples

    async def run(self) -> None:
        while True:
            await self.scrape()
            await asyncio.sleep(0.002)


async def live(http: httpx.AsyncClient, random_: random.Random) -> None:
    """One client: it asks for something, and may leave before it has it."""
    body: dict[str, Any] = {
        "prompt": [[random_.randrange(2, 900) for _ in range(random_.randrange(1, 20))]] * random_.choice([1, 1, 2]),
        "n": random_.choice([1, 1, 2]),
        "max_tokens": random_.choice([1, 5, 30, 100_000]),  # the last one is refused
        "stream": random_.random() < 0.5,
    }
    with contextlib.suppress(httpx.HTTPError, TimeoutError):
        async with asyncio.timeout(random_.choice([0.02, 0.1, 10])):
            await http.post("/v1/completions", json=body)


async def until_idle(scraper: Scraper) -> dict[str, float]:
    for _ in range(1000):
        samples = await scraper.scrape()
        if not samples["num_requests_running"] + samples["num_requests_waiting"]:
            return samples
        await asyncio.sleep(0.01)
    raise AssertionError("requests are live though all their clients are gone")


@pytest.mark.parametrize("kills", [False, True])
def test_every_scrape_balances(kills: bool) -> None:
    async def run() -> None:
        async with serving(Behaviour(step_s=0.0005), max_num_queued_requests=8) as (state, client, http):
            scraper, random_ = Scraper(http), random.Random(1)
            scraping = asyncio.create_task(scraper.run())
            for number in range(40):
                if number >= 4 and scraper.num_scrapes > 20 and scraper.num_busy:
                    break
                while client.health_problem() is not None:
                    await asyncio.sleep(0.01)
                lives = [asyncio.create_task(live(http, random_)) for _ in range(12)]
                if kills:
                    await asyncio.sleep(0.05)
                    assert client.engine_pid is not None
                    os.kill(client.engine_pid, signal.SIGKILL)
                await asyncio.gather(*lives)
            scraping.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await scraping
            assert scraper.num_scrapes > 20
            assert scraper.num_busy > 0
            samples = await until_idle(scraper)
            state.metrics.ledger.check()
            assert samples["generation_tokens_total"] > 0
            assert samples["request_success_total abort"] > 0
            assert (samples["engine_restarts_total"] > 0) == kills

    asyncio.run(asyncio.wait_for(run(), 60))


def test_gauges_do_not_freeze_when_all_clients_leave() -> None:
    async def run() -> None:
        async with serving(Behaviour(step_s=0.01)) as (_, client, http):
            scraper = Scraper(http)
            body = {"prompt": [5, 6, 7], "max_tokens": 190, "ignore_eos": True, "stream": True}
            asks = [asyncio.create_task(http.post("/v1/completions", json=body)) for _ in range(6)]
            for _ in range(1000):
                if (await scraper.scrape())["num_requests_running"] == 6:
                    break
                await asyncio.sleep(0.01)
            else:
                raise AssertionError("the requests never ran")
            assert scraper.last["kv_cache_usage_perc"] > 0
            for ask in asks:
                ask.cancel()
            await asyncio.gather(*asks, return_exceptions=True)
            samples = await until_idle(scraper)
            assert samples["request_success_total abort"] == 6
            for _ in range(1000):
                if (await scraper.scrape())["kv_cache_usage_perc"] == 0:
                    break
                await asyncio.sleep(0.01)
            assert scraper.last["kv_cache_usage_perc"] == 0
            assert client.stats().num_running == 0

    asyncio.run(asyncio.wait_for(run(), 60))


def test_an_engine_that_is_gone_is_said_to_be() -> None:
    async def run() -> None:
        async with serving() as (_, client, http):
            scraper = Scraper(http)
            assert (await scraper.scrape())["engine_up"] == 1
            assert client.engine_pid is not None
            os.kill(client.engine_pid, signal.SIGKILL)
            seen = set()
            for _ in range(1000):
                seen.add((await scraper.scrape())["engine_up"])
                if scraper.last["engine_restarts_total"] == 1 and scraper.last["engine_up"] == 1:
                    break
                await asyncio.sleep(0.005)
            assert seen == {0, 1}
            assert scraper.last["engine_restarts_total"] == 1

    asyncio.run(asyncio.wait_for(run(), 60))


def test_usage_adds_up_to_the_counters() -> None:
    async def run() -> None:
        async with serving(max_num_queued_requests=100) as (_, _, http):
            random_, scraper = random.Random(2), Scraper(http)
            bodies = [
                {
                    "prompt": [[random_.randrange(2, 900) for _ in range(random_.randrange(1, 30))]] * prompts,
                    "n": n,
                    "max_tokens": random_.randrange(1, 12),
                    "stream": stream,
                    "stream_options": {"include_usage": True} if stream else None,
                }
                for prompts in (1, 2)
                for n in (1, 3)
                for stream in (False, True)
                for _ in range(4)
            ]
            answers = await asyncio.gather(*(http.post("/v1/completions", json=body) for body in bodies))
            usages = [
                read_events(answer.text)[-1]["usage"] if body["stream"] else answer.json()["usage"]
                for body, answer in zip(bodies, answers, strict=True)
            ]
            samples = await until_idle(scraper)
            assert samples["tenant_prompt_tokens_total default"] == sum(u["prompt_tokens"] for u in usages)
            cached = sum(u["prompt_tokens_details"]["cached_tokens"] for u in usages)
            assert samples["tenant_cached_tokens_total default"] == cached > 0
            output = sum(u["completion_tokens"] for u in usages)
            assert samples["tenant_generation_tokens_total default"] == output
            assert samples["request_generation_tokens_sum"] == output
            for _ in range(1000):  # the engine's own figures come with its next heartbeat
                if (await scraper.scrape())["generation_tokens_total"] == output:
                    break
                await asyncio.sleep(0.01)
            assert scraper.last["generation_tokens_total"] == output
            assert scraper.last["iteration_tokens_total_count"] == scraper.last["num_steps_total"]
            computed = scraper.last["iteration_tokens_total_sum"]
            once = scraper.last["prompt_tokens_total"] + output - samples["requests_received_total"]
            assert computed == once or (computed > once and scraper.last["num_preemptions_total"] > 0)

    asyncio.run(asyncio.wait_for(run(), 60))


def test_a_request_that_outlives_its_engine_says_so() -> None:
    async def run() -> None:
        async with serving(Behaviour(step_s=0.005)) as (_, client, http):
            scraper = Scraper(http)
            body = {"prompt": [5, 6, 7], "max_tokens": 100, "ignore_eos": True}
            ask = asyncio.create_task(http.post("/v1/completions", json=body))
            for _ in range(1000):
                if (await scraper.scrape())["generation_tokens_total"] > 0:
                    break
                await asyncio.sleep(0.005)
            assert client.engine_pid is not None
            os.kill(client.engine_pid, signal.SIGKILL)
            while not ask.done():
                samples = await scraper.scrape()
                assert samples["num_requests_running"] + samples["num_requests_waiting"] <= 1
                await asyncio.sleep(0.005)
            answer = ask.result().json()
            assert answer["usage"]["completion_tokens"] == 100
            assert answer["timings"]["num_restarts"] == 1
            assert answer["timings"]["decode_ms"] > 100 * 5
            samples = await until_idle(scraper)
            assert (samples["requests_received_total"], samples["request_success_total length"]) == (1, 1)
            assert samples["engine_restarts_total"] == 1

    asyncio.run(asyncio.wait_for(run(), 60))
