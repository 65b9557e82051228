"""The real server, scheduler, cache and engine process around the oracle: answers are exact whatever happens."""

import asyncio
import os
import signal
import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from tests.end_to_end.served import Served, serve

from pelton.oracle.chain import compute_answer

pytestmark = pytest.mark.cpu
PROMPT = "A long beginning that everybody shares, so that blocks of the cache are used by many at a time. "


async def complete(http: httpx.AsyncClient, prompt: str, num_tokens: int, **more: Any) -> tuple[str, str]:
    """The text of an answer and why it ended, or the error's message."""
    body = {"prompt": prompt, "max_tokens": num_tokens, "temperature": 0, "ignore_eos": True} | more
    answer = (await http.post("/v1/completions", json=body)).json()
    if "error" in answer:
        return answer["error"]["message"], "error"
    return answer["choices"][0]["text"], answer["choices"][0]["finish_reason"]


def expect(prompt: str, num_tokens: int, **whose: Any) -> tuple[str, str]:
    return bytes(compute_answer(prompt.encode(), num_tokens, **whose)).decode(), "length"


def play(served: Served, provoke: Callable[[], None] | None, bad: list[str]) -> list[tuple[str, str]]:
    """Sixty requests with `bad` prompts among them, and `provoke` in the middle; the answers to the bad ones."""

    async def run() -> list[tuple[str, str]]:
        async with httpx.AsyncClient(base_url=served.url, timeout=60) as http:
            prompts = [PROMPT[: 20 + 7 * number] + str(number) for number in range(60)]
            calls = [complete(http, prompt, 60 + number, seed=1) for number, prompt in enumerate(prompts)]
            tasks = [asyncio.create_task(call) for call in calls]
            tasks += [asyncio.create_task(complete(http, prompt, 50)) for prompt in bad]
            if provoke is not None:
                await asyncio.sleep(0.3)
                provoke()
            answers = await asyncio.gather(*tasks)
            for number, prompt in enumerate(prompts):
                assert answers[number] == expect(prompt, 60 + number), number
            return answers[60:]

    return asyncio.run(asyncio.wait_for(run(), 120))


@pytest.fixture(scope="module")
def served():  # type: ignore[no-untyped-def]
    with serve(
        "oracle", "--executor", "oracle:step_ms=3", "--kv-cache-memory-bytes", "4M", "--max-num-requests", "16",
        "--no-access-log",
    ) as server:  # fmt: skip
        yield server


def test_nothing_happens(served: Served) -> None:
    assert play(served, None, []) == []


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_the_engine_is_killed_or_stopped(served: Served, number: signal.Signals) -> None:
    engine, started_s = served.find_engine(), time.monotonic()
    play(served, lambda: os.kill(engine, number), [])
    assert served.find_engine() != engine
    assert time.monotonic() - started_s < 60


def test_poison_fails_alone(served: Served) -> None:
    bad = [f"{PROMPT}\x01{kind}:{after};" for kind, after in (("crash", 2), ("raise", 0), ("none", 3))]
    answers = play(served, None, bad)
    assert [reason for _, reason in answers] == ["error"] * 3
    for text, _ in answers[:2]:
        assert "twice while it computed this request" in text
    assert "not numbers" in answers[2][0]


def test_a_step_that_hangs_is_noticed(served: Served) -> None:
    ((text, reason),) = play(served, None, [f"{PROMPT}\x01hang:1;"])
    assert reason == "error"
    assert "all its threads wait for something" in text


def test_a_scripted_engine_says_what_it_is_told() -> None:
    with serve("oracle", "--executor", "scripted", "--kv-cache-memory-bytes", "4M") as server:
        said = 'Caf\u00e9: {"a": [1, 2]}\n'
        body = {"messages": [{"role": "user", "content": f"\x02{said}\x03"}], "max_tokens": 100, "stream": False}
        answer = httpx.post(f"{server.url}/v1/chat/completions", json=body, timeout=20).json()
        assert answer["choices"][0]["message"]["content"] == said
        assert answer["choices"][0]["finish_reason"] == "stop"
