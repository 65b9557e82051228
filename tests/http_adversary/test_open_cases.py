"""Requests that broke servers of this kind, from public bug reports; each beside innocents whose tokens stay.

Cases about tool calls, reasoning, grammars and speculation are not here: there is nothing to break yet.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import httpx
import pytest
from tests.end_to_end.served import Served, serve
from tests.http_adversary.storm import FLAGS, aim
from tests.http_adversary.target import Target
from tests.http_adversary.wire import connect, post
from tests.observability.exposition import parse_samples

pytestmark = pytest.mark.cpu  # real servers and processes
CHAT, TEXT = "/v1/chat/completions", "/v1/completions"


class Case(NamedTuple):
    """A request, and the parameter that its 400 names; None: it is answered."""

    number: str
    path: str
    body: dict[str, Any]
    param: str | None = None
    repeat: int = 1


def chat(number: str, param: str | None = None, repeat: int = 1, content: Any = "hi", **more: Any) -> Case:
    messages = [{"role": "user", "content": content}]
    return Case(number, CHAT, {"messages": messages, "max_tokens": 4} | more, param, repeat)


def text(number: str, param: str | None = None, prompt: Any = "hi", **more: Any) -> Case:
    return Case(number, TEXT, {"prompt": prompt, "max_tokens": 4} | more, param)


CALLS = [{"id": None, "type": "function", "function": {"name": "f", "arguments": "{}"}}]
CASES = [
    text("C-01", "prompt", prompt=""),
    text("C-01", prompt="   "),
    text("C-01", "prompt", prompt=[]),
    text("C-01", "prompt", prompt=[[]]),
    text("C-02", "top_k", top_k=0.01),
    chat("C-03", "n", n="1"),
    chat("C-03", "n", n=True),
    chat("C-03", "n", n=1.5),
    chat("C-04", "allowed_token_ids", allowed_token_ids=list(range(2000))),
    chat("C-04", "logit_bias", logit_bias={str(i): 1 for i in range(2000)}),
    chat("C-04", stop_token_ids=[200] * 500),
    chat("C-05", "stop_token_ids", stop_token_ids=[999999999]),
    chat("C-06", "logit_bias", logit_bias={"191222999": -100, "-1": 5}),
    chat("C-06", "logit_bias", logit_bias={"5": 101}),
    chat("C-06", "logit_bias", logit_bias={"five": 1}),
    chat("C-07", "stop_token_ids", 50, min_tokens=1, stop_token_ids=[-1, 2147483647]),
    chat("C-08", "structured_outputs", structured_outputs={"regex": "(unclosed["}),
    chat("C-08", "guided_regex", guided_regex="(unclosed["),
    chat("C-09", "response_format", response_format={"type": "json_schema", "json_schema": {"name": "x"}}),
    text("C-10", "top_p", top_p=-3),
    chat("C-11", "max_tokens", 2, max_tokens=0),
    text("C-12", "guided_grammar", guided_grammar='rout::="x"'),
    text("C-13", "n_keep", n_keep=-5),
    text("C-13", "truncate_prompt_tokens", truncate_prompt_tokens=-2),
    text("C-13", "n_discard", n_discard=-1),
    chat("C-14", "prompt", content="a" * 50_000),
    chat("C-16", "n", n=5000),
    chat("C-18", tools=[{"type": "function", "function": {"name": f"f{i}", "parameters": {}}} for i in range(100)]),
    Case("C-20", CHAT, {"messages": [{"role": "assistant", "content": None, "tool_calls": CALLS}], "max_tokens": 2}),
    Case("C-20", CHAT, {"messages": [{"role": "tool", "tool_call_id": 5, "content": "a"}]}, "messages"),
    text("C-37", echo=True),
    chat("C-39", "stream_options", stream_options={"include_usage": True}),
    chat("C-40", logprobs=True),
    chat("C-40", "top_logprobs", top_logprobs=3),
    chat("C-40", "logprobs", logprobs=True, top_logprobs=21),
    text("C-41", "logprobs", logprobs=100),
    text("C-43", "echo", echo=True, logprobs=1),
    chat("C-45", "max_tokens", max_completion_tokens=5),
    chat("C-52", n=10, temperature=1, seed=1),
]  # fmt: skip


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serve("oracle", *FLAGS) as running:
        yield running


@pytest.fixture(scope="module")
def scripted() -> Iterator[Served]:
    with serve("oracle", "--executor", "scripted", *FLAGS[2:]) as running:
        yield running


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.number} {case.param}")
def test_a_case(served: Served, case: Case) -> None:
    async def run() -> None:
        async with httpx.AsyncClient(base_url=served.url, timeout=20) as http:
            target, _ = await aim(served, http)
            async with target.with_innocents():
                answers = await asyncio.gather(*(http.post(case.path, json=case.body) for _ in range(case.repeat)))
                for answer in answers:
                    assert answer.status_code == (200 if case.param is None else 400), answer.text
                    target.judge(answer.status_code, answer.content, case)
                    if case.param is not None:
                        assert answer.json()["error"]["param"].partition("[")[0] == case.param

    asyncio.run(asyncio.wait_for(run(), 60))


def fold(url: str, body: dict[str, Any]) -> tuple[str, list[str], list[str]]:
    """The text of a stream, its pieces, and its finish reasons; every line must be JSON."""
    with httpx.stream("POST", url + CHAT, json=body | {"stream": True}, timeout=20) as answer:
        lines = [line.removeprefix("data: ") for line in answer.iter_lines() if line]
    assert lines.pop() == "[DONE]"
    choices = [choice for line in lines for choice in json.loads(line)["choices"]]
    pieces = [choice["delta"]["content"] for choice in choices[1:] if "content" in choice["delta"]]
    return (
        "".join(pieces),
        pieces,
        [choice["finish_reason"] for choice in choices if choice["finish_reason"] is not None],
    )


@pytest.mark.parametrize(
    ("number", "said", "stop", "expected"),
    [
        ("C-21", "DEFGHIJK", ["DEFGHIJ"], ""),
        ("C-22", "I am fine", ["ZZZZ"], "I am fine"),
        ("C-23", "answer 42\nEND tail", ["END"], "answer 42\n"),
        ("C-24", "one two three", ["two"], "one "),
        ("C-26", "n\u00e9 \u4f60\u597d \U0001f469\u200d\U0001f680 \u010f", None, None),
        ("C-36", "plain", None, None),
    ],
)  # fmt: skip
def test_what_a_model_says_comes_out_the_same_each_way(
    scripted: Served, number: str, said: str, stop: list[str] | None, expected: str | None
) -> None:
    expected = said if expected is None else expected
    messages = [{"role": "user", "content": f"\x02{said}\x03"}]
    body = {"messages": messages, "max_tokens": 100, "stop": stop}
    whole = httpx.post(scripted.url + CHAT, json=body, timeout=20).json()
    assert whole["choices"][0]["message"]["content"] == expected, number
    assert whole["choices"][0]["finish_reason"] == "stop"
    text_, pieces, reasons = fold(scripted.url, body)
    assert (text_, reasons) == (expected, ["stop"]), number
    assert "" not in pieces, "a piece without content"
    several = httpx.post(scripted.url + CHAT, json=body | {"n": 2}, timeout=20).json()
    assert [choice["message"]["content"] for choice in several["choices"]] == [expected] * 2


def test_usage_is_the_same_streamed_and_whole(scripted: Served) -> None:
    body = {"messages": [{"role": "user", "content": "\x02one two\x03"}], "stop": ["two"], "max_tokens": 50}
    for n in (1, 3):
        whole = httpx.post(scripted.url + CHAT, json=body | {"n": n}, timeout=20).json()["usage"]
        more = {"n": n, "stream": True, "stream_options": {"include_usage": True}}
        lines = httpx.post(scripted.url + CHAT, json=body | more, timeout=20).text.split("\n\n")
        last = json.loads(lines[-3].removeprefix("data: "))
        assert last["choices"] == []
        for name in ("prompt_tokens", "completion_tokens", "total_tokens"):
            assert last["usage"][name] == whole[name], (n, name)


def test_streams_that_all_leave_at_once_leave_nothing(served: Served) -> None:
    async def run() -> None:
        async with httpx.AsyncClient(base_url=served.url, timeout=20) as http:
            target, _ = await aim(served, http)
            before = parse_samples((await http.get("/metrics")).text)
            writers = await start_streams(target, 121)
            for writer in writers:
                writer.transport.abort()
            await target.check_unharmed()
            samples = parse_samples((await http.get("/metrics")).text)
            aborted = "request_success_total abort"
            assert 0 < samples[aborted] - before.get(aborted, 0) <= 121
            assert samples["kv_cache_usage_perc"] == 0

    asyncio.run(asyncio.wait_for(run(), 60))


async def start_streams(target: Target, count: int) -> list[asyncio.StreamWriter]:
    writers = []
    for number in range(count):
        reader, writer = await connect(target.url)
        body = {"prompt": f"{number} hello", "max_tokens": 400, "ignore_eos": True, "stream": True}
        writer.write(post(TEXT, json.dumps(body).encode()))
        if number < 5:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(reader.read(64), 5)
        writers.append(writer)
    return writers
