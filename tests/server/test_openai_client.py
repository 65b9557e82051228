"""The official client against a server with a fake engine: whole and streamed, many at once."""

from __future__ import annotations

import asyncio

import openai
import pytest
from tests.api.fakes import ANSWER, FakeEngineClient
from tests.server.http import make_state, on_a_port

pytestmark = pytest.mark.cpu  # real servers
MESSAGES = [{"role": "user", "content": "hi"}]


async def chat_whole(client: openai.AsyncOpenAI) -> str:
    answer = await client.chat.completions.create(model="tiny", messages=MESSAGES)  # type: ignore[arg-type]
    assert answer.usage is not None
    assert answer.usage.completion_tokens == len(ANSWER) + 1
    assert answer.choices[0].finish_reason == "stop"
    assert answer.to_dict()["timings"]["completion_tokens"] == len(ANSWER) + 1  # type: ignore[index]
    return answer.choices[0].message.content or ""


async def chat_stream(client: openai.AsyncOpenAI) -> str:
    text, usage, timings = "", None, []
    stream = await client.chat.completions.create(
        model="tiny",
        messages=MESSAGES,  # type: ignore[arg-type]
        stream=True,
        stream_options={"include_usage": True},
        extra_body={"top_k": 5},
    )
    async for chunk in stream:
        usage = chunk.usage
        timings += [chunk.to_dict()["timings"]] if "timings" in chunk.to_dict() else []
        text += "".join(choice.delta.content or "" for choice in chunk.choices)
    assert usage is not None
    assert usage.completion_tokens == len(ANSWER) + 1
    assert [each["completion_tokens"] for each in timings] == [len(ANSWER) + 1]  # type: ignore[index]
    return text


async def complete_whole(client: openai.AsyncOpenAI) -> str:
    return (await client.completions.create(model="tiny", prompt="a", max_tokens=50)).choices[0].text


async def complete_stream(client: openai.AsyncOpenAI) -> str:
    stream = await client.completions.create(model="tiny", prompt="a", max_tokens=50, stream=True)
    return "".join([chunk.choices[0].text async for chunk in stream])


def test_sixteen_at_once_of_every_kind() -> None:
    async def run() -> None:
        state = make_state()
        async with on_a_port(state) as (url, _), openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="x") as client:
            assert [m.id async for m in client.models.list()] == ["tiny", "alias"]
            kinds = (chat_whole, chat_stream, complete_whole, complete_stream)
            texts = await asyncio.gather(*(kind(client) for kind in kinds for _ in range(16)))
            assert set(texts) == {ANSWER}
        assert state.admission.num_live == 0

    asyncio.run(run())


def test_errors_are_the_clients_own() -> None:
    async def run() -> None:
        engine = FakeEngineClient()
        async with (
            on_a_port(make_state(engine)) as (url, _),
            openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0) as client,
        ):
            with pytest.raises(openai.NotFoundError, match="not served"):
                await client.completions.create(model="other", prompt="a")
            with pytest.raises(openai.BadRequestError, match="temprature") as caught:
                await client.completions.create(model="tiny", prompt="a", extra_body={"temprature": 1})
            assert caught.value.param == "temprature"
            engine.fail_after = 2
            with pytest.raises(openai.APIError, match="on fire"):
                await complete_stream(client)

    asyncio.run(run())
