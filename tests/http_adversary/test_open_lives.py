"""Public bug reports about the life of requests and servers: what is refused, left, killed, started again.

C-58 (an engine that is killed in a stream) and C-60 (a killed server leaves no child): end_to_end/test_recovery.py.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from tests.end_to_end.served import Served, run_pelton, serve
from tests.fakes import TinyModel
from tests.http_adversary.wire import Line, connect, post
from tests.observability.exposition import parse_samples

from pelton.errors import ConfigError
from pelton.oracle.chain import compute_answer

pytestmark = pytest.mark.cpu  # real servers and processes
CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
QUIET = ("--no-access-log", "--log-level", "error")
SCRIPT = [{"role": "user", "content": "\x02na\u00efve words, \u4f60\u597d\x03"}]
HI = [{"role": "user", "content": "hi"}]
LONG = "long " * 200


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serve("oracle", "--executor", "oracle", "--kv-cache-memory-bytes", "8M", *QUIET) as running:
        yield running
        assert running.end() == 0


@pytest.fixture(scope="module")
def scripted() -> Iterator[Served]:
    with serve("oracle", "--executor", "scripted", "--kv-cache-memory-bytes", "8M", *QUIET) as running:
        yield running


def expect(prompt: str, num_tokens: int) -> str:
    """The whole answer of the oracle to a greedy request."""
    return bytes(compute_answer(prompt.encode(), num_tokens)).decode()


def body_of(prompt: str, num_tokens: int, **more: Any) -> dict[str, Any]:
    return {"prompt": prompt, "max_tokens": num_tokens, "temperature": 0, "ignore_eos": True} | more


def read_metrics(url: str) -> dict[str, float]:
    return parse_samples(httpx.get(f"{url}/metrics", timeout=20).text)


def test_c15_what_the_cache_can_never_hold_is_refused_at_once_and_blocks_nobody() -> None:
    flags = ("--executor", "oracle", "--kv-cache-memory-bytes", "256K", *QUIET)  # 1024 tokens
    ended = run_pelton("serve", "oracle", "--port", "0", "--max-model-len", "4096", *flags)
    assert ended.returncode == ConfigError.exit_code
    assert "which holds 1024 tokens" in ended.stderr

    async def run(served: Served) -> None:
        async with httpx.AsyncClient(base_url=served.url, timeout=20) as http:
            prompts = [f"a short one, number {number}" for number in range(10)]
            calls = [http.post(TEXT, json=body_of("x" * 2000, 4))]
            calls += [http.post(TEXT, json=body_of(prompt, 30)) for prompt in prompts]
            first, *others = await asyncio.gather(*calls)
            assert first.status_code == 400, first.text
            assert first.json()["error"]["param"] == "prompt"
            assert [each.json()["choices"][0]["text"] for each in others] == [expect(prompt, 30) for prompt in prompts]

    with serve("oracle", "--max-model-len", "1024", *flags) as served:
        asyncio.run(asyncio.wait_for(run(served), 60))


def test_c17_a_body_of_27_mb_is_refused_and_health_answers_meanwhile(served: Served) -> None:
    async def run() -> None:
        async with httpx.AsyncClient(base_url=served.url, timeout=20) as http:
            gaps: list[float] = []

            async def poll() -> None:
                while True:
                    started_s = time.monotonic()
                    assert (await http.get("/health")).status_code == 200
                    gaps.append(time.monotonic() - started_s)
                    await asyncio.sleep(0.05)

            polling = asyncio.create_task(poll())
            body = json.dumps({"messages": [{"role": "user", "content": "a" * 27_000_000}]}).encode()
            line = Line(served.url)
            answer = await line.ask(post(CHAT, body))
            await line.close()
            assert answer.status == 413
            assert set(answer.json()["error"]) == {"message", "type", "param", "code"}
            await asyncio.sleep(0.2)
            polling.cancel()
            assert len(gaps) > 2
            assert max(gaps) < 0.5

    asyncio.run(asyncio.wait_for(run(), 60))


def test_c19_of_a_burst_those_run_that_were_let_in_and_the_others_cost_nothing() -> None:
    flags = ("--executor", "oracle:step_ms=20", "--max-num-requests", "4", "--max-num-queued-requests", "10", *QUIET)

    async def run(served: Served) -> None:
        limits = httpx.Limits(max_connections=200)
        async with httpx.AsyncClient(base_url=served.url, timeout=60, limits=limits) as http:
            ends: dict[int, float] = {}

            async def ask(number: int) -> httpx.Response:
                answer = await http.post(TEXT, json=body_of(f"{number} {LONG}", 40))
                ends[number] = time.monotonic()
                return answer

            answers = await asyncio.gather(*(ask(number) for number in range(200)))
            taken = [number for number, answer in enumerate(answers) if answer.status_code == 200]
            refused = [number for number, answer in enumerate(answers) if answer.status_code == 503]
            assert len(taken) + len(refused) == 200
            assert 10 <= len(taken) <= 14
            for number in taken:
                assert answers[number].json()["choices"][0]["text"] == expect(f"{number} {LONG}", 40)
            assert max(ends[number] for number in refused) < min(ends[number] for number in taken)
            assert all(int(answers[number].headers["retry-after-ms"]) > 0 for number in refused)
        samples = read_metrics(served.url)
        assert samples["request_success_total length"] == len(taken)
        # What was refused was not turned into tokens.
        assert samples["request_prompt_tokens_sum"] == sum(len(f"{number} {LONG}") for number in taken)
        assert samples["prompt_tokens_total"] <= samples["request_prompt_tokens_sum"]

    with serve("oracle", *flags, "--kv-cache-memory-bytes", "8M") as served:
        asyncio.run(asyncio.wait_for(run(served), 60))


def read_events(url: str, path: str, body: dict[str, Any]) -> list[Any]:
    """The events of a stream, which must end with its mark."""
    text = httpx.post(url + path, json=body | {"stream": True}, timeout=20).text
    *events, last, rest = text.split("\n\n")
    assert (last, rest) == ("data: [DONE]", "")
    return [json.loads(event.removeprefix("data: ")) for event in events]


def test_c44_a_stream_has_log_probabilities_beside_every_piece(scripted: Served) -> None:
    body: dict[str, Any] = {"messages": SCRIPT, "max_tokens": 60, "logprobs": True, "top_logprobs": 2}
    choices = [choice for event in read_events(scripted.url, CHAT, body) for choice in event["choices"]]
    assert all(choice["logprobs"]["content"] for choice in choices if choice["delta"].get("content"))
    entries = [entry for choice in choices for entry in (choice["logprobs"] or {}).get("content") or ()]
    said = bytes(byte for entry in entries for byte in entry["bytes"] or ())
    assert said.decode().startswith("na\u00efve words, \u4f60\u597d")
    assert [choice["finish_reason"] for choice in choices] == [None] * (len(choices) - 1) + ["stop"]

    body = {"prompt": SCRIPT[0]["content"], "max_tokens": 60, "logprobs": 1}
    choices = [choice for event in read_events(scripted.url, TEXT, body) for choice in event["choices"]]
    assert all(choice["logprobs"]["tokens"] for choice in choices if choice["text"])
    assert choices[-1]["finish_reason"] == "stop"


@pytest.fixture(scope="module")
def guarded() -> Iterator[Served]:
    flags = ("--api-key", "k", "--max-num-requests", "1", "--max-num-queued-requests", "1", "--max-body-bytes", "20000")
    speed = ("--executor", "oracle:step_ms=20", "--kv-cache-memory-bytes", "4M")
    with serve("oracle", *speed, *flags, *QUIET) as running:
        yield running


def test_c46_the_official_client_raises_what_each_status_means(guarded: Served) -> None:
    with openai.OpenAI(base_url=f"{guarded.url}/v1", api_key="k", max_retries=0, timeout=20) as client:

        def chat(**more: Any) -> object:
            return client.chat.completions.create(**{"model": "oracle", "messages": HI, "max_tokens": 4} | more)

        late = {"x-request-timeout-ms": "60"}
        wrong: list[tuple[type[openai.APIStatusError], int, Any]] = [
            (openai.BadRequestError, 400, lambda: chat(temperature=-1)),
            (openai.NotFoundError, 404, lambda: chat(model="no-such-model")),
            (openai.APIStatusError, 413, lambda: chat(messages=[{"role": "user", "content": "a" * 30_000}])),
            (openai.AuthenticationError, 401, client.with_options(api_key="wrong").models.list),
            (openai.APIStatusError, 405, lambda: client.get("/chat/completions", cast_to=object)),
            (openai.APIStatusError, 504, lambda: chat(max_tokens=400, extra_headers=late)),
        ]
        for kind, status, call in wrong:
            with pytest.raises(kind) as raised:
                call()
            assert raised.value.status_code == status
            assert isinstance(raised.value.body, dict), status
            assert set(raised.value.body) == {"message", "type", "param", "code"}, status


def test_c46_a_full_server_is_an_internal_server_error_with_a_time_to_the_official_client(guarded: Served) -> None:
    async def run() -> None:
        async with openai.AsyncOpenAI(base_url=f"{guarded.url}/v1", api_key="k", max_retries=0, timeout=20) as client:
            create = client.completions.create
            calls = [create(model="oracle", prompt=str(number), max_tokens=30) for number in range(8)]
            ended = await asyncio.gather(*calls, return_exceptions=True)
            refused = [each for each in ended if isinstance(each, openai.InternalServerError)]
            assert len(refused) >= 5
            assert len(refused) + sum(not isinstance(each, BaseException) for each in ended) == 8
            assert {each.status_code for each in refused} == {503}
            assert all(int(each.response.headers["retry-after"]) >= 1 for each in refused)

    asyncio.run(asyncio.wait_for(run(), 60))


def test_c47_a_route_that_does_not_exist_says_so_in_openai_s_form(served: Served) -> None:
    body = {"model": "oracle", "input": [{"role": "user", "content": [{"type": "input_text", "text": "hi"}]}]}
    answer = httpx.post(f"{served.url}/v1/responses", json=body, timeout=20)
    assert answer.status_code == 404
    assert set(answer.json()["error"]) == {"message", "type", "param", "code"}


def test_c54_serial_greedy_prompts_are_the_same_with_the_cache_and_without(tmp_path: Path) -> None:
    model = TinyModel().write(tmp_path / "tiny")
    beginnings = ("", "abc" * 9, "the same words " * 5)
    prompts = [beginnings[number % 3] + "xyz"[: number % 4] + str(number % 90) for number in range(250)]

    def ask_all(*flags: str) -> tuple[list[list[int]], int]:
        common = ("--num-threads", "1", "--max-num-requests", "4", *QUIET)
        with serve(model, *common, *flags) as served, httpx.Client(base_url=served.url, timeout=20) as http:
            bodies = (body_of(prompt, 6, return_token_ids=True) for prompt in prompts)
            answers = [http.post(TEXT, json=body).json() for body in bodies]
            cached = sum(answer["usage"]["prompt_tokens_details"]["cached_tokens"] for answer in answers)
            return [answer["choices"][0]["token_ids"] for answer in answers], cached

    with_cache, num_cached = ask_all()
    without, none_cached = ask_all("--no-enable-prefix-caching")
    assert with_cache == without
    assert num_cached > 1000
    assert none_cached == 0


def test_c56_streams_that_are_closed_early_are_counted_as_such(served: Served) -> None:
    async def run() -> None:
        before = await asyncio.to_thread(read_metrics, served.url)
        for number in range(5):
            reader, writer = await connect(served.url)
            writer.write(post(TEXT, json.dumps(body_of(f"{number} gone", 5000, stream=True)).encode()))
            await reader.readexactly(64)
            writer.transport.abort()
        end_s = time.monotonic() + 10
        names = (
            "request_success_total abort",
            "request_generation_tokens_sum",
            "tenant_generation_tokens_total default",
        )
        while True:
            now = await asyncio.to_thread(read_metrics, served.url)
            grown = [now[name] - before.get(name, 0) for name in names]
            if grown[0] == 5 and not now["num_requests_running"]:
                break
            assert time.monotonic() < end_s, grown
            await asyncio.sleep(0.02)
        assert 0 < grown[1] < 5 * 5000
        assert grown[1] == grown[2]
        assert now["generation_tokens_total"] >= now["request_generation_tokens_sum"], "more was sent than computed"

    asyncio.run(asyncio.wait_for(run(), 60))


def test_c57_two_hundred_streams_over_one_connection(served: Served) -> None:
    async def run() -> None:
        line = Line(served.url)
        first = None
        for number in range(200):
            answer = await line.ask(post(TEXT, json.dumps(body_of(f"stream {number}", 50, stream=True)).encode()))
            assert answer.body.endswith(b"data: [DONE]\n\n")
            events = [json.loads(part[6:]) for part in answer.body.split(b"\n\n")[:-2]]
            assert "".join(event["choices"][0]["text"] for event in events) == expect(f"stream {number}", 50)
            first = first or line.connection
            assert line.connection is first, "the connection was not used again"
        await line.close()

    asyncio.run(asyncio.wait_for(run(), 60))


def test_c59_a_killed_server_starts_again_on_its_port_and_serves_all() -> None:
    flags = ("--executor", "oracle", "--kv-cache-memory-bytes", "8M", *QUIET)

    async def ask_many(url: str) -> None:
        async with httpx.AsyncClient(base_url=url, timeout=20) as http:

            async def ask(number: int) -> None:
                answer = await http.post(TEXT, json=body_of(f"again {number}", 20))
                assert answer.json()["choices"][0]["text"] == expect(f"again {number}", 20)

            async with asyncio.TaskGroup() as group:
                for number in range(200):
                    group.create_task(ask(number))
                    await asyncio.sleep(0.01)

    with serve("oracle", *flags) as first:
        port = first.url.rpartition(":")[2]
        with httpx.stream("POST", first.url + TEXT, json=body_of("a", 5000, stream=True), timeout=20) as answer:
            pieces = answer.iter_bytes()
            next(pieces)
            os.kill(first.process.pid, signal.SIGKILL)
            with pytest.raises((httpx.RemoteProtocolError, httpx.ReadError)):
                list(pieces)
        first.process.wait(20)
        with serve("oracle", *flags, "--port", port) as again:
            asyncio.run(asyncio.wait_for(ask_many(again.url), 60))


def test_c61_what_a_template_objects_to_is_the_fault_of_the_client(tmp_path: Path) -> None:
    template = tmp_path / "strict.jinja"
    template.write_text(
        "{% for m in messages %}{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}"
        "{{ raise_exception('Roles must alternate user/assistant') }}{% endif %}{{ m['content'] }}{% endfor %}"
    )
    flags = ("--executor", "oracle", "--kv-cache-memory-bytes", "4M", "--chat-template", str(template), *QUIET)
    with serve("oracle", *flags) as served:
        good = httpx.post(served.url + CHAT, json={"messages": HI, "max_tokens": 4}, timeout=20)
        assert good.status_code == 200
        bad = httpx.post(served.url + CHAT, json={"messages": HI * 2, "max_tokens": 4}, timeout=20)
        assert bad.status_code == 400
        assert "Roles must alternate user/assistant" in bad.json()["error"]["message"]
        assert bad.json()["error"]["param"] == "messages"
        assert str(tmp_path) not in bad.text
