"""POST /v1/completions against a fake engine."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.api.fakes import ANSWER, BOS, FakeEngineClient, length_tokens, text_tokens
from tests.server.http import in_memory, make_state, read_events

pytestmark = pytest.mark.unit
URL = "/v1/completions"


def post(body: dict[str, Any], client: FakeEngineClient | None = None, **settings: Any) -> Any:
    """The response to `body`."""

    async def run() -> Any:
        async with in_memory(make_state(client, **settings)) as http:
            return await http.post(URL, json=body)

    return asyncio.run(run())


def test_a_whole_answer() -> None:
    client = FakeEngineClient()
    response = post({"prompt": "ab", "max_tokens": 50}, client)
    assert response.status_code == 200, response.text
    whole = response.json()
    assert whole["id"].startswith("cmpl-")
    assert (whole["object"], whole["model"]) == ("text_completion", "tiny")
    assert whole["choices"] == [
        {"index": 0, "text": ANSWER, "logprobs": None, "finish_reason": "stop", "stop_reason": None}
    ]
    assert whole["usage"] == {
        "prompt_tokens": 3,
        "completion_tokens": len(ANSWER) + 1,
        "total_tokens": len(ANSWER) + 4,
        "prompt_tokens_details": {"cached_tokens": 1},
    }
    assert client.requests[0].prompt_token_ids == (BOS, 97, 98)
    assert client.live == set()
    assert client.aborted == set()


def test_max_tokens_is_16_by_default() -> None:
    client = FakeEngineClient(lambda _: length_tokens("x" * 40))
    choice = post({"prompt": "ab"}, client).json()["choices"][0]
    assert (choice["text"], choice["finish_reason"]) == ("x" * 16, "length")


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("a", [(BOS, 97)]),
        (["a", "b"], [(BOS, 97), (BOS, 98)]),
        ([1, 2], [(1, 2)]),
        ([[1, 2], [3]], [(1, 2), (3,)]),
    ],
)
def test_every_form_of_prompt(prompt: Any, expected: list[tuple[int, ...]]) -> None:
    client = FakeEngineClient()
    whole = post({"prompt": prompt, "n": 2, "seed": 5}, client).json()
    sent = {r.request_id: r for r in client.requests}
    assert [sent[i].prompt_token_ids for i in sorted(sent)] == [p for p in expected for _ in range(2)]
    assert [c["index"] for c in whole["choices"]] == list(range(2 * len(expected)))
    assert len({r.sampling.seed for r in client.requests}) == 2
    assert whole["usage"]["prompt_tokens"] == sum(map(len, expected))


def test_the_fold_of_a_stream_is_the_whole_answer() -> None:
    body = {"prompt": ["a", "b"], "n": 2, "stop": "wor", "echo": True, "max_tokens": 30, "return_token_ids": True}
    whole = post(body).json()
    response = post({**body, "stream": True, "stream_options": {"include_usage": True}})
    assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
    chunks = read_events(response.text)
    folded: dict[int, dict[str, Any]] = {}
    for chunk in chunks[:-1]:
        assert chunk["usage"] is None
        for choice in chunk["choices"]:
            into = folded.setdefault(choice["index"], {"text": "", "token_ids": [], "finish_reason": None})
            assert into["finish_reason"] is None
            into["text"] += choice["text"]
            into["token_ids"] += choice["token_ids"]
            into["finish_reason"] = choice["finish_reason"]
    for choice in whole["choices"]:
        assert folded[choice["index"]].items() <= choice.items()
        assert choice["stop_reason"] == "wor"
    assert chunks[-1]["choices"] == []
    assert chunks[-1]["usage"] == whole["usage"]


def test_a_stop_string_ends_the_engine_request() -> None:
    client = FakeEngineClient()
    choice = post({"prompt": "a", "stop": ["lo,"], "max_tokens": 30}, client).json()["choices"][0]
    assert (choice["text"], choice["finish_reason"], choice["stop_reason"]) == ("Hel", "stop", "lo,")
    assert len(client.aborted) == 1
    assert client.live == set()


def test_logprobs() -> None:
    choice = post({"prompt": "a", "max_tokens": 3, "logprobs": 2}).json()["choices"][0]
    assert choice["logprobs"] == {
        "tokens": ["H", "e", "l"],
        "token_logprobs": [-0.5] * 3,
        "top_logprobs": [{c: -0.5, "A": -1.0, "B": -2.0} for c in "Hel"],
        "text_offset": [0, 1, 2],
    }
    body = {"prompt": "a", "max_tokens": 3, "logprobs": 0, "stream": True, "return_tokens_as_token_ids": True}
    chunks = read_events(post(body).text)
    assert [c["choices"][0]["logprobs"]["tokens"] for c in chunks] == [
        ["token_id:72"],
        ["token_id:101"],
        ["token_id:108"],
    ]
    assert [c["choices"][0]["logprobs"]["text_offset"] for c in chunks] == [[0], [1], [2]]


def test_usage_in_every_chunk() -> None:
    body = {"prompt": "a", "max_tokens": 2, "stream": True, "stream_options": {"continuous_usage_stats": True}}
    chunks = read_events(post(body).text)
    assert [c["usage"]["completion_tokens"] for c in chunks] == [1, 2]


def test_text_that_is_cut_inside_a_character() -> None:
    client = FakeEngineClient(lambda _: text_tokens("aé€😀b"))
    chunks = read_events(post({"prompt": "a", "stream": True, "max_tokens": 30}, client).text)
    assert [c["choices"][0]["text"] for c in chunks] == ["a", "é", "€", "😀", "b", ""]


@pytest.mark.parametrize(
    ("body", "param", "words"),
    [
        ({}, "prompt", "missing"),
        ({"prompt": None}, "prompt", "missing"),
        ({"prompt": []}, "prompt", "0 prompts"),
        ({"prompt": 5}, "prompt", "expected"),
        ({"prompt": [1.5]}, "prompt", "not a prompt"),
        ({"prompt": [True]}, "prompt", "not a prompt"),
        ({"prompt": [{"prompt": "a"}]}, "prompt", "not objects"),
        ({"prompt": [-1]}, "prompt", "does not exist"),
        ({"prompt": [258]}, "prompt", "does not exist"),
        ({"prompt": [10**30]}, "prompt", "does not exist"),
        ({"prompt": ["a"] * 1025}, "prompt", "1025 prompts"),
        ({"prompt": "a" * 300}, "prompt", "max_model_len"),
        ({"prompt": "a", "max_tokens": 500}, "max_tokens", "Lower max_tokens to 198"),
        ({"prompt": "a", "max_tokens": 0}, "max_tokens", "out of range"),
        ({"prompt": "a", "n": 0}, "n", "out of range"),
        ({"prompt": "a", "n": 10**9}, "n", "out of range"),
        ({"prompt": "a", "n": 2.0}, "n", "expected int"),
        ({"prompt": "a", "n": True}, "n", "got bool"),
        ({"prompt": ["a"] * 1000, "n": 100}, "n", "100000 answers"),
        ({"prompt": "a", "temperature": "hot"}, "temperature", "got str"),
        ({"prompt": "a", "temperature": -1}, "temperature", "out of range"),
        ({"prompt": "a", "top_p": 0}, "top_p", "out of range"),
        ({"prompt": "a", "min_tokens": 2**31}, "min_tokens", "out of range"),
        ({"prompt": "a", "stop": [""]}, "stop", "none of them empty"),
        ({"prompt": "a", "stop": [1]}, "stop", "got int"),
        ({"prompt": "a", "stop": "x" * 2000}, "stop", "1024"),
        ({"prompt": "a", "stop_token_ids": [999]}, "stop_token_ids", "does not exist"),
        ({"prompt": "a", "logit_bias": {"x": 1}}, "logit_bias", "not a token id"),
        ({"prompt": "a", "logit_bias": {"999": 1}}, "logit_bias", "does not exist"),
        ({"prompt": "a", "logit_bias": {"9": 101}}, "logit_bias", "out of range"),
        ({"prompt": "a", "logprobs": 21}, "logprobs", "at most 20"),
        ({"prompt": "a", "seed": 2**70}, "seed", "out of range"),
        ({"prompt": "a", "priority": 2**40}, "priority", "out of range"),
        ({"prompt": "a", "best_of": 3}, "best_of", "Use n"),
        ({"prompt": "a", "suffix": "b"}, "suffix", "filling in the middle"),
        ({"prompt": "a", "echo": True, "logprobs": 1}, "echo", "logprobs"),
        ({"prompt": "a", "stream_options": {}}, "stream_options", "stream=true"),
        ({"prompt": "a", "stream": True, "stream_options": {"x": 1}}, "stream_options", "unknown field"),
        ({"prompt": "a", "truncate_prompt_tokens": 0}, "truncate_prompt_tokens", "at least 1"),
        ({"prompt": "a", "temprature": 1}, "temprature", "Did you mean 'temperature'?"),
        ({"prompt": "a", "response_format": {"type": "json_object"}}, "response_format", "format"),
        ({"prompt": "a", "use_beam_search": True}, "use_beam_search", "beam search"),
    ],
    ids=str,
)
def test_refusals(body: dict[str, Any], param: str, words: str) -> None:
    client = FakeEngineClient()
    for stream in (False, True):
        if stream and "stream_options" in body:
            continue
        response = post({**body, "stream": True} if stream else body, client)
        error = response.json()["error"]
        assert (response.status_code, error["param"], error["type"]) == (400, param, "invalid_request_error"), error
        assert words in error["message"]
    assert client.requests == []


def test_an_empty_prompt_is_refused_and_truncation_keeps_the_end() -> None:
    assert post({"prompt": "", "add_special_tokens": False}).json()["error"]["param"] == "prompt"
    client = FakeEngineClient()
    post({"prompt": "abcd", "truncate_prompt_tokens": 2}, client)
    assert client.requests[0].prompt_token_ids == (99, 100)


def test_fields_without_effect_and_harmless_values_are_taken() -> None:
    body = {"prompt": "a", "user": "u", "suffix": None, "best_of": 1, "response_format": {"type": "text"}}
    assert post(body).status_code == 200


def test_unknown_fields_can_be_ignored() -> None:
    response = post({"prompt": "a", "zzz": 1, "temprature": 2}, ignore_unknown_fields=True)
    assert response.status_code == 200
    assert response.headers["x-pelton-ignored-fields"] == "zzz, temprature"


def test_a_failure_before_the_first_token_has_its_status() -> None:
    client = FakeEngineClient()
    client.fail_after = 0
    for stream in (False, True):
        response = post({"prompt": "a", "stream": stream}, client)
        assert response.status_code == 500
        assert "on fire" in response.json()["error"]["message"]


def test_a_failure_in_a_stream_is_an_event() -> None:
    client = FakeEngineClient()
    client.fail_after = 2
    events = read_events(post({"prompt": "a", "stream": True}, client).text)
    assert [e["choices"][0]["text"] for e in events[:2]] == ["H", "e"]
    assert "on fire" in events[2]["error"]["message"]
    assert len(events) == 3


def test_a_dead_engine_is_503() -> None:
    client = FakeEngineClient()
    client.problem = "it died"
    response = post({"prompt": "a"}, client)
    assert response.status_code == 503
    assert response.headers["retry-after"] == "5"
    assert "it died" in response.json()["error"]["message"]
