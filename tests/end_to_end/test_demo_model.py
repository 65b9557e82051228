"""The demo model behind a real server, through the official client: what the README promises to a newcomer."""

from __future__ import annotations

import ast
import asyncio
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
from tests.end_to_end.served import Served, serve

from pelton.checkpoint.hub import where

pytestmark = pytest.mark.cpu
GREEDY: dict[str, Any] = {"model": "demo", "temperature": 0, "max_tokens": 16}
MAX_RSS_BYTES = 900e6
LANGUAGES = ("Python", "C", "Rust", "Go", "Java", "Ruby", "Lua", "Perl")


@pytest.fixture(scope="module")
def demo() -> Iterator[Served]:
    """`pelton serve demo` on a free port."""
    if where("demo") is None:
        pytest.skip("the demo model is not in the cache; python tools/fetch_models.py demo puts it there")
    with serve("demo") as running:
        yield running
        assert running.end() == 0


@pytest.fixture
def client(demo: Served) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{demo.url}/v1", api_key="x", timeout=60, max_retries=0) as opened:
        yield opened


def ask(text: str) -> list[Any]:
    """The messages of a conversation that begins with `text`."""
    return [{"role": "user", "content": text}]


def check_usage(got: Any, expected: Any) -> None:
    """The same counts; the second time more of the prompt was cached."""
    assert (got.prompt_tokens, got.completion_tokens) == (expected.prompt_tokens, expected.completion_tokens)
    assert got.prompt_tokens_details.cached_tokens >= expected.prompt_tokens_details.cached_tokens


def test_a_chat_whole_and_streamed(client: openai.OpenAI):
    wanted: dict[str, Any] = {**GREEDY, "messages": ask("What is the capital of France? One word.")}
    whole = client.chat.completions.create(**wanted)
    assert "Paris" in (whole.choices[0].message.content or "")
    assert whole.choices[0].finish_reason == "stop"
    chunks = list(client.chat.completions.create(**wanted, stream=True, stream_options={"include_usage": True}))
    deltas = [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]
    assert "".join(deltas) == whole.choices[0].message.content
    check_usage(chunks[-1].usage, whole.usage)


def test_a_completion_whole_and_streamed(client: openai.OpenAI):
    wanted: dict[str, Any] = {**GREEDY, "prompt": "The capital of France is"}
    whole = client.completions.create(**wanted)
    assert whole.choices[0].text.startswith(" Paris")
    assert whole.choices[0].finish_reason == "length"
    chunks = list(client.completions.create(**wanted, stream=True))
    assert len(chunks) > 2, "a stream comes in pieces"
    assert "".join(chunk.choices[0].text for chunk in chunks) == whole.choices[0].text


def test_sixteen_at_once_get_what_each_gets_alone_in_little_memory(demo: Served):
    async def run() -> None:
        async with openai.AsyncOpenAI(base_url=f"{demo.url}/v1", api_key="x", timeout=60, max_retries=0) as client:

            async def chat(language: str) -> str:
                messages = ask(f"Print the numbers from 1 to 10 in {language}.")
                stream = await client.chat.completions.create(**GREEDY, messages=messages, stream=True)
                return "".join([c.choices[0].delta.content or "" async for c in stream if c.choices])

            async def complete(language: str) -> str:
                prompt = f"A {language} program " + "that adds two numbers " * len(language)
                return (await client.completions.create(**GREEDY, prompt=prompt)).choices[0].text

            calls = [(kind, language) for kind in (chat, complete) for language in LANGUAGES]
            alone = [await kind(language) for kind, language in calls]
            assert await asyncio.gather(*(kind(language) for kind, language in calls)) == alone
            assert len(set(alone)) > len(LANGUAGES)

    asyncio.run(run())
    peaks = [get_peak_rss_bytes(pid) for pid in (demo.process.pid, demo.find_engine())]
    assert sum(peaks) < MAX_RSS_BYTES, f"server and engine: {peaks}"


def get_peak_rss_bytes(pid: int) -> int:
    """The most memory that a process has held at once, pages of the mapped model file included."""
    match = re.search(r"^VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    assert match is not None
    return int(match[1]) * 1024


def test_the_fibonacci_function_that_it_writes_runs(client: openai.OpenAI):
    """The README's question. The function is called with 10; both ways to count from are right."""
    messages = ask("Write a Fibonacci function in Python.")
    answer = client.chat.completions.create(**{**GREEDY, "max_tokens": 400}, messages=messages)
    match = re.search(r"```python\n(.*?)```", answer.choices[0].message.content or "", re.DOTALL)
    assert match is not None, answer
    names = [node.name for node in ast.parse(match[1]).body if isinstance(node, ast.FunctionDef)]
    program = f"{match[1]}\nprint({names[0]}(10))\n"
    done = subprocess.run(
        [sys.executable, "-I", "-c", program], capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"\b(55|34)\b", done.stdout.splitlines()[-1]), (program, done.stdout)
