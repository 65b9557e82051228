"""AsyncLLM on a fake engine: growing answers, aborts, one start."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from itertools import pairwise
from typing import Any

import pytest
from tests.api.fakes import ANSWER, FakeEngineClient, make_parts

from pelton import AsyncLLM, SamplingParams
from pelton.errors import ConfigError, RequestError

pytestmark = pytest.mark.unit


def run(client: FakeEngineClient, work: Any) -> Any:
    """`work(llm)` with an AsyncLLM around `client`."""

    async def inside() -> Any:
        async with AsyncLLM.from_parts(make_parts(client)) as llm:
            result: Coroutine[Any, Any, Any] = work(llm)
            return await result

    return asyncio.run(inside())


def test_answers_grow_and_the_last_is_finished() -> None:
    async def work(llm: AsyncLLM) -> None:
        texts = []
        async for generation in llm.generate("ab", SamplingParams(max_tokens=50)):
            texts.append(generation.text)
        assert texts[-1] == ANSWER
        assert all(later.startswith(earlier) for earlier, later in pairwise(texts))
        assert (generation.finished, generation.prompt, generation.finish_reason) == (True, "ab", "stop")
        assert generation.timings.first_token_s == 2.0

    client = FakeEngineClient()
    run(client, work)
    assert client.is_closed


def test_an_abort_ends_the_iterator_with_a_last_output() -> None:
    async def work(llm: AsyncLLM) -> None:
        client.gate = asyncio.Event()
        reasons = []
        async for generation in llm.generate("ab", SamplingParams(n=2), "mine"):
            reasons.append({c.finish_reason for c in generation.outputs})
            if len(reasons) == 2:
                await llm.abort("mine")
                await llm.abort("unknown")
        assert reasons[-1] == {"abort"}

    client = FakeEngineClient()
    run(client, work)
    assert client.live == set()


def test_an_id_is_used_once_at_a_time() -> None:
    async def work(llm: AsyncLLM) -> None:
        async for _ in llm.generate("a", request_id="same"):
            with pytest.raises(RequestError, match="'same' is in use"):
                await llm.complete("a", request_id="same")
            break

    run(FakeEngineClient(), work)


def test_chat_renders_and_has_no_default_limit() -> None:
    client = FakeEngineClient()

    async def work(llm: AsyncLLM) -> None:
        messages = [{"role": "user", "content": "hi"}]
        last = [generation async for generation in llm.chat(messages)][-1]
        assert (last.prompt, last.text) == ("[hi]", ANSWER)
        assert client.requests[0].sampling.max_tokens is None
        assert await llm.tokenize("a", add_special_tokens=False) == [97]
        assert await llm.detokenize([97]) == "a"

    run(client, work)


def test_a_wrong_setting_is_known_at_once() -> None:
    with pytest.raises(ConfigError, match="max_model_len"):
        AsyncLLM("demo", max_model_length=5)


def test_closing_what_never_started_is_nothing() -> None:
    asyncio.run(AsyncLLM("demo").close())
