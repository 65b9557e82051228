"""A tiny random model through the real processes: one answer alone, many at once, clients that leave, the end."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from tests.end_to_end.served import Served, serve

pytestmark = pytest.mark.cpu
DEADLINE_S = 30.0
GREEDY: dict[str, Any] = {"temperature": 0, "max_tokens": 24}


def get_metric(url: str, name: str) -> float:
    """A metric of the server, summed over its labels."""
    lines = httpx.get(f"{url}/metrics").text.splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name + "{"))


def wait_until_idle(url: str) -> None:
    """Return once nothing runs or waits and all KV blocks are free or cached; fail after DEADLINE_S."""
    end_s = time.monotonic() + DEADLINE_S
    while get_metric(url, "pelton:num_requests_running") + get_metric(url, "pelton:num_requests_waiting"):
        assert time.monotonic() < end_s, "requests still run"
        time.sleep(0.02)


def test_the_same_request_gives_the_same_answer_alone_and_among_others(served: Served) -> None:
    prompts = [f"request number {i}: " + "x" * (7 * i) for i in range(12)]

    async def run() -> None:
        async with openai.AsyncOpenAI(base_url=f"{served.url}/v1", api_key="x") as client:

            async def whole(prompt: str) -> str:
                answer = await client.completions.create(model="tiny", prompt=prompt, **GREEDY)
                return answer.choices[0].text

            async def stream(prompt: str) -> str:
                chunks = await client.completions.create(model="tiny", prompt=prompt, stream=True, **GREEDY)
                return "".join([chunk.choices[0].text async for chunk in chunks])

            alone = [await whole(prompt) for prompt in prompts]
            assert await asyncio.gather(*map(whole, prompts)) == alone
            assert await asyncio.gather(*map(stream, prompts)) == alone
            assert len(set(alone)) > 1

    asyncio.run(run())


def test_chat_with_seeds_and_n(served: Served) -> None:
    body = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 16, "n": 3, "seed": 5}
    answers = [httpx.post(f"{served.url}/v1/chat/completions", json=body, timeout=DEADLINE_S).json() for _ in range(2)]
    texts = [[c["message"]["content"] for c in answer["choices"]] for answer in answers]
    assert texts[0] == texts[1]
    assert len(set(texts[0])) > 1
    assert answers[0]["usage"]["prompt_tokens"] == len("<user\nhi>\n<assistant\n")  # a byte is a token, a mark too


def test_logprobs_are_those_of_the_chosen_tokens(served: Served) -> None:
    body = {"prompt": "abc", "logprobs": 3, "return_token_ids": True, "return_tokens_as_token_ids": True, **GREEDY}
    choice = httpx.post(f"{served.url}/v1/completions", json=body, timeout=DEADLINE_S).json()["choices"][0]
    logprobs = choice["logprobs"]
    assert len(logprobs["tokens"]) == len(choice["token_ids"])
    for chosen, top in zip(logprobs["token_logprobs"], logprobs["top_logprobs"], strict=True):
        assert chosen == max(top.values()) <= 0
        assert len(top) == 3


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_leaves_frees_the_engine(served: Served, stream: bool) -> None:
    async def run() -> None:
        async with httpx.AsyncClient() as http:
            body = {"prompt": "a", "max_tokens": 450, "ignore_eos": True, "stream": stream}
            request = asyncio.create_task(http.post(f"{served.url}/v1/completions", json=body))
            await asyncio.sleep(0.05)
            request.cancel()
            await asyncio.gather(request, return_exceptions=True)

    before = get_metric(served.url, "pelton:request_success_total")
    asyncio.run(run())
    wait_until_idle(served.url)
    assert get_metric(served.url, "pelton:request_success_total") >= before


def test_bad_input_is_refused_with_the_right_code_and_harms_nobody(served: Served) -> None:
    url = f"{served.url}/v1/completions"
    cases: list[tuple[bytes, int, str]] = [
        (b'{"prompt": "a", "n": 0}', 400, "n: 0 is out of range"),
        (b'{"prompt": "a", "temperature": NaN}', 400, "not valid JSON"),
        (b'{"prompt": "a", "temperature": "hot"}', 400, "temperature"),
        (b'{"prompt": "a", "temprature": 1}', 400, "Did you mean 'temperature'?"),
        (b'{"prompt": "\xff"}', 400, "not valid UTF-8"),
        (b'{"prompt": "' + b"a" * 10_000_000 + b'"}', 413, "10000014 bytes"),
        (b'{"prompt": "' + b"a" * 600 + b'"}', 400, "max_model_len=512"),
        (b'{"prompt": [999999]}', 400, "does not exist"),
        (b'{"prompt": "a", "logit_bias": {"999999": 1}}', 400, "does not exist"),
        (b"[" * 100_000, 400, "deeper than"),
    ]
    for content, status, words in cases:
        response = httpx.post(url, content=content, headers={"content-type": "application/json"}, timeout=DEADLINE_S)
        assert (response.status_code, words in response.text) == (status, True), response.text
    assert httpx.get(f"{served.url}/health").json() == {"status": "ok"}
    assert httpx.post(url, json={"prompt": "a", **GREEDY}, timeout=DEADLINE_S).status_code == 200


def test_what_operators_ask(served: Served) -> None:
    for path in ("/ready", "/version", "/v1/models", "/openapi.json", "/docs"):
        assert httpx.get(served.url + path).status_code == 200
    config = httpx.get(f"{served.url}/config").json()
    assert config["scheduler"]["max_num_requests"]["source"] == "asked"
    assert config["cache"]["block_size"]["why"]


def test_a_signal_lets_a_stream_end_and_leaves_no_process(tiny_model: Path) -> None:
    with serve(tiny_model, "--num-threads", "1") as served:
        body = {"prompt": "a", "max_tokens": 200, "ignore_eos": True, "stream": True}
        with httpx.stream("POST", f"{served.url}/v1/completions", json=body, timeout=DEADLINE_S) as response:
            lines = response.iter_lines()
            next(lines)
            os.kill(served.process.pid, signal.SIGTERM)
            rest = list(lines)
        assert rest[-2:] == ["data: [DONE]", ""] or rest[-1] == "data: [DONE]"
        assert '"finish_reason":"length"' in "".join(rest)
        assert served.process.wait(DEADLINE_S) == 0


def test_a_request_outlives_its_engine(tiny_model: Path) -> None:
    with serve(tiny_model, "--num-threads", "1") as served:
        url = f"{served.url}/v1/completions"
        body = {"prompt": "a", "max_tokens": 450, "ignore_eos": True, "temperature": 0}
        undisturbed = httpx.post(url, json=body, timeout=DEADLINE_S).json()["choices"][0]["text"]
        with httpx.stream("POST", url, json={**body, "stream": True}, timeout=DEADLINE_S) as response:
            lines = response.iter_lines()
            events = [next(lines)]
            os.kill(served.find_engine(), signal.SIGKILL)
            events += [line for line in lines if line]
        assert events.pop() == "data: [DONE]"
        chunks = [json.loads(event.removeprefix("data: ")) for event in events]
        assert "".join(chunk["choices"][0]["text"] for chunk in chunks) == undisturbed
        assert chunks[-1]["timings"]["num_restarts"] == 1
        assert get_metric(served.url, "pelton:engine_restarts_total") == 1
        end_s = time.monotonic() + DEADLINE_S
        while httpx.get(f"{served.url}/health").status_code != 200:
            assert time.monotonic() < end_s, "the engine did not come back"
            time.sleep(0.05)
        assert httpx.post(url, json={"prompt": "a", **GREEDY}, timeout=DEADLINE_S).status_code == 200
