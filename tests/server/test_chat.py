"""POST /v1/chat/completions against a fake engine."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.api.fakes import ANSWER, EOS, FakeEngineClient, OneLineChat, length_tokens
from tests.server.http import in_memory, make_state, read_events

from pelton.checkpoint.contract import GenerationDefaults

pytestmark = pytest.mark.unit
USER = {"role": "user", "content": "hi"}


def post(body: dict[str, Any], client: FakeEngineClient | None = None, **settings: Any) -> tuple[Any, OneLineChat]:
    """The response to `body`, and what the template was asked for."""

    async def run() -> tuple[Any, OneLineChat]:
        state = make_state(client, **settings)
        async with in_memory(state) as http:
            response = await http.post("/v1/chat/completions", json={"messages": [USER], **body})
            return response, state.engine.parts.chat  # type: ignore[return-value]

    return asyncio.run(run())


def test_a_whole_answer() -> None:
    client = FakeEngineClient()
    response, _ = post({}, client)
    whole = response.json()
    assert response.status_code == 200, whole
    assert whole["object"] == "chat.completion"
    assert whole["choices"] == [
        {
            "index": 0,
            "message": {"role": "assistant", "content": ANSWER, "refusal": None},
            "logprobs": None,
            "finish_reason": "stop",
            "stop_reason": None,
        }
    ]
    assert bytes(client.requests[0].prompt_token_ids) == b"[hi]"
    assert client.requests[0].sampling.max_tokens is None


def test_a_stream_has_role_text_and_finish_in_this_order() -> None:
    response, _ = post({"stream": True, "max_tokens": 2, "stream_options": {"include_usage": True}})
    *chunks, last = read_events(response.text)
    assert [c["choices"][0]["delta"] for c in chunks] == [
        {"role": "assistant", "content": ""},
        {"content": "H"},
        {"content": "e"},
        {},
    ]
    assert [c["choices"][0]["finish_reason"] for c in chunks] == [None, None, None, "length"]
    assert {c["object"] for c in chunks} == {"chat.completion.chunk"}
    assert len({(c["id"], c["created"], c["system_fingerprint"]) for c in [*chunks, last]}) == 1
    assert (last["choices"], last["usage"]["total_tokens"]) == ([], 6)


def test_each_of_n_answers_has_its_role_and_its_finish() -> None:
    response, _ = post({"stream": True, "n": 3, "max_tokens": 2})
    chunks = [c["choices"][0] for c in read_events(response.text)]
    for index in range(3):
        mine = [c for c in chunks if c["index"] == index]
        assert mine[0]["delta"] == {"role": "assistant", "content": ""}
        assert [c["finish_reason"] for c in mine].count("length") == 1
        assert mine[-1]["finish_reason"] == "length"


def test_logprobs() -> None:
    response, _ = post({"max_tokens": 1, "logprobs": True, "top_logprobs": 1})
    assert response.json()["choices"][0]["logprobs"] == {
        "content": [
            {
                "token": "H",
                "logprob": -0.5,
                "bytes": [72],
                "top_logprobs": [{"token": "A", "logprob": -1.0, "bytes": [65]}],
            }
        ]
    }


def test_the_template_gets_messages_tools_and_variables() -> None:
    tool = {"type": "function", "function": {"name": "f", "parameters": {}}}
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
    messages = [
        {"role": "developer", "content": "be good"},
        {"role": "assistant", "content": None, "tool_calls": [call], "refusal": None},
        {
            "role": "tool",
            "tool_call_id": "c",
            "content": [{"type": "text", "text": "x"}, {"type": "text", "text": "y"}],
        },
    ]
    body = {"messages": messages, "tools": [tool], "chat_template_kwargs": {"k": 1}, "reasoning_effort": "low"}
    response, chat = post(body)
    assert response.status_code == 200, response.text
    (asked,) = chat.calls
    assert [m["role"] for m in asked["messages"]] == ["system", "assistant", "tool"]
    assert asked["messages"][1]["tool_calls"][0]["function"]["arguments"] == {"a": 1}
    assert asked["messages"][2]["content"] == "x\ny"
    assert asked["tools"] == [tool]
    assert asked["variables"] == {"k": 1, "reasoning_effort": "low"}
    assert post({**body, "tool_choice": "none"})[1].calls[0]["tools"] is None


@pytest.mark.parametrize(
    ("body", "param", "words"),
    [
        ({"messages": None}, "messages", "missing"),
        ({"messages": []}, "messages", "at least one"),
        ({"messages": "hi"}, "messages", "got str"),
        ({"messages": [1]}, "messages", "messages[0]"),
        ({"messages": [{"content": "x"}]}, "messages", "messages[0].role"),
        ({"messages": [{"role": "robot", "content": "x"}]}, "messages", "'robot' is not a role"),
        ({"messages": [{"role": "user"}]}, "messages", "messages[0].content"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages", "image_url"),
        ({"messages": [{"role": "user", "contnt": "x"}]}, "messages", "Did you mean 'content'?"),
        ({"max_tokens": 1, "max_completion_tokens": 2}, "max_tokens", "differs"),
        ({"max_completion_tokens": 0}, "max_tokens", "out of range"),
        ({"top_logprobs": 2}, "top_logprobs", "logprobs=true"),
        ({"logprobs": 5}, "logprobs", "got int"),
        ({"tool_choice": "required"}, "tool_choice", "grammar"),
        ({"tool_choice": {"type": "function"}}, "tool_choice", "grammar"),
        ({"tools": [{"type": "function"}]}, "tools", "function.name"),
        ({"chat_template_kwargs": {"messages": []}}, "chat_template_kwargs", "cannot be set"),
        ({"chat_template": "{{ 1 }}"}, "chat_template", "code"),
        ({"functions": [{}]}, "functions", "use tools"),
        ({"modalities": ["audio"]}, "modalities", "text only"),
        ({"store": True}, "store", "not stored"),
        ({"model": "other"}, "model", "not served"),
    ],
    ids=str,
)
def test_refusals(body: dict[str, Any], param: str, words: str) -> None:
    client = FakeEngineClient()
    response, _ = post(body, client)
    error = response.json()["error"]
    assert response.status_code == (404 if param == "model" else 400)
    assert error["param"] == param, error
    assert words in error["message"]
    assert client.requests == []


def test_what_models_authors_want_fills_what_is_not_asked() -> None:
    generation = GenerationDefaults(eos_token_ids=(EOS,), temperature=0.7, top_k=20, repetition_penalty=1.1)

    def sampling(body: dict[str, Any], **settings: Any) -> Any:
        client = FakeEngineClient()
        assert post(body, client, generation=generation, **settings)[0].status_code == 200
        return client.requests[0].sampling

    asked = sampling({"top_k": 3})
    assert (asked.temperature, asked.top_k, asked.repetition_penalty) == (0.7, 3, 1.1)
    greedy = sampling({"temperature": 0})
    assert (greedy.temperature, greedy.top_k, greedy.repetition_penalty) == (0, 0, 1.1)
    neutral = sampling({}, generation_config="neutral")
    assert (neutral.temperature, neutral.top_k, neutral.repetition_penalty) == (1.0, 0, 1.0)


def test_an_answer_without_text_has_a_role_and_a_finish() -> None:
    response, _ = post({"stream": True, "stop": "H"}, FakeEngineClient(lambda _: length_tokens("H")))
    chunks = [c["choices"][0] for c in read_events(response.text)]
    assert [c["delta"] for c in chunks] == [{"role": "assistant", "content": ""}, {}]
    assert (chunks[-1]["finish_reason"], chunks[-1]["stop_reason"]) == ("stop", "H")
