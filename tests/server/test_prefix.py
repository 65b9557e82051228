"""Named prefixes over HTTP, with a real engine process: computed, found, limited, listed, released, restarted."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import httpx
import pytest
from tests.observability.exposition import read_samples
from tests.server.engine_process import serving
from tests.server.http import call
from tests.server.test_tally import check_law

from pelton.engine.process_client import ProcessClient
from pelton.errors import UnknownPrefix
from pelton.server.prefix import find_prefix, make_prefix
from pelton.server.prefix_schema import MAX_TTL_S, PrefixRequest
from pelton.server.state import ServerState

pytestmark = pytest.mark.cpu  # real processes
BLOCK = 4  # the fake engine has 64 blocks of 4 tokens, so a tenant may keep 16 blocks
PROMPT = list(range(100, 130))  # seven blocks and two tokens
Test = Callable[[ServerState, ProcessClient, httpx.AsyncClient], Awaitable[None]]


def run(test: Test, **settings: Any) -> None:
    async def bounded() -> None:
        async with serving(**settings) as (state, client, http):
            await test(state, client, http)
            state.metrics.ledger.check()
            check_law(read_samples(state.metrics))
            assert state.admission.num_live == 0

    asyncio.run(asyncio.wait_for(bounded(), 60))


async def pin(http: httpx.AsyncClient, name: str, prompt: Any = None, **more: Any) -> httpx.Response:
    return await http.post("/v1/prefixes", json={"name": name, "prompt": prompt or PROMPT, **more})


async def count_cached(http: httpx.AsyncClient, prompt: list[int], **more: Any) -> int:
    answer = (await http.post("/v1/completions", json={"prompt": prompt, "max_tokens": 1, **more})).json()
    return int(answer["usage"]["prompt_tokens_details"]["cached_tokens"])


async def flood(http: httpx.AsyncClient) -> None:
    """Use all of the cache for other things, more than once."""
    for number in range(8):
        await count_cached(http, [number + 200] * 180)


def test_answers_say_why_no_more_was_cached_if_they_are_asked() -> None:
    async def test(_state: ServerState, _client: ProcessClient, http: httpx.AsyncClient) -> None:
        async def ask(prompt: list[int], **more: Any) -> Any:
            body = {"prompt": prompt, "max_tokens": 1, "explain_cache": True, **more}
            return (await http.post("/v1/completions", json=body)).json()["usage"]["prompt_tokens_details"]

        def miss(reason: str, position: int) -> list[dict[str, Any]]:
            return [{"prompt": 0, "reason": reason, "position": position}]

        assert await ask(PROMPT) == {"cached_tokens": 0, "cache_misses": miss("new", 0)}
        assert await ask(PROMPT) == {"cached_tokens": 28, "cache_misses": miss("tail", 28)}
        changed = [*PROMPT[:10], *[7] * 20]
        assert await ask(changed) == {"cached_tokens": 10, "cache_misses": miss("diverged", 10)}
        assert await ask(PROMPT, cache_salt="x") == {"cached_tokens": 0, "cache_misses": miss("salt", 0)}
        await flood(http)
        assert await ask(PROMPT) == {"cached_tokens": 0, "cache_misses": miss("evicted", 0)}
        assert await ask(PROMPT, explain_cache=False) == {"cached_tokens": 28}

    run(test)


def test_a_prefix_is_computed_kept_found_and_released() -> None:
    async def test(_state: ServerState, _client: ProcessClient, http: httpx.AsyncClient) -> None:
        assert (await http.get("/v1/prefixes")).json() == {"object": "list", "data": []}
        made = await pin(http, "agents")
        assert made.status_code == 200
        info = made.json()
        assert info["object"] == "prefix"
        assert (info["name"], info["tokens"], info["cached_tokens"], info["expires_at"]) == ("agents", 28, 28, None)
        await flood(http)
        assert await count_cached(http, [*PROMPT, 5, 6, 7]) >= 28
        assert (await http.get("/v1/prefixes/agents")).json() == info
        assert (await http.get("/v1/prefixes")).json()["data"] == [info]
        gone = await http.delete("/v1/prefixes/agents")
        assert gone.json() == {"object": "prefix", "name": "agents", "deleted": True}
        for method in ("GET", "DELETE"):
            missing = await http.request(method, "/v1/prefixes/agents")
            assert missing.status_code == 404
            assert missing.json()["error"]["param"] == "name"
        await flood(http)
        assert await count_cached(http, [*PROMPT, 5, 6, 7]) == 0

    run(test)


def test_a_conversation_is_found_by_those_that_go_on_with_it() -> None:
    async def test(_state: ServerState, _client: ProcessClient, http: httpx.AsyncClient) -> None:
        messages = [{"role": "user", "content": "a" * 40}]
        made = await http.post("/v1/prefixes", json={"name": "talk", "messages": messages})
        assert made.json()["tokens"] == 40  # "[" + 40 + "]", in whole blocks
        answer = await http.post("/v1/chat/completions", json={"messages": messages, "max_tokens": 1})
        assert answer.json()["usage"]["prompt_tokens_details"]["cached_tokens"] >= 40

    run(test)


def test_a_salt_keeps_prefixes_apart() -> None:
    async def test(_state: ServerState, _client: ProcessClient, http: httpx.AsyncClient) -> None:
        assert (await pin(http, "mine", cache_salt="s")).status_code == 200
        assert await count_cached(http, PROMPT) == 0
        assert await count_cached(http, PROMPT, cache_salt="s") >= 28

    run(test)


def test_prefixes_outlive_their_engine() -> None:
    async def test(_state: ServerState, client: ProcessClient, http: httpx.AsyncClient) -> None:
        await pin(http, "agents", ttl=1000)
        assert client.engine_pid is not None
        os.kill(client.engine_pid, signal.SIGKILL)
        while not (client.num_restarts == 1 and client.health_problem() is None):
            await asyncio.sleep(0.01)
        info = (await http.get("/v1/prefixes/agents")).json()
        assert info["tokens"] == 28
        assert 900 < info["expires_at"] - time.time() < 1001
        await count_cached(http, PROMPT)
        await flood(http)
        assert await count_cached(http, PROMPT) >= 28

    run(test)


def test_a_name_ends_by_itself() -> None:
    async def test(_state: ServerState, _client: ProcessClient, http: httpx.AsyncClient) -> None:
        assert (await pin(http, "short", ttl=0.05)).status_code == 200
        for _ in range(1000):
            if (await http.get("/v1/prefixes/short")).status_code == 404:
                return
            await asyncio.sleep(0.01)
        raise AssertionError("it stays")

    run(test)


def test_a_tenant_has_a_share_and_no_more() -> None:
    async def test(state: ServerState, _client: ProcessClient, http: httpx.AsyncClient) -> None:
        assert (await pin(http, "a", list(range(2, 2 + 12 * BLOCK)))).status_code == 200
        refused = await pin(http, "b", list(range(300, 300 + 5 * BLOCK)))
        assert refused.status_code == 429
        assert "retry-after" in refused.headers
        assert "--named-prefix-share" in refused.json()["error"]["message"]
        assert read_samples(state.metrics)["requests_refused_total engine 429"] == 1
        assert (await pin(http, "b", list(range(300, 300 + 4 * BLOCK)))).status_code == 200
        assert (await pin(http, "a", list(range(2, 2 + 11 * BLOCK)))).status_code == 200  # in place of the first
        assert len((await http.get("/v1/prefixes")).json()["data"]) == 2

    run(test)


def test_a_key_is_needed_here_too() -> None:
    async def test(_state: ServerState, _client: ProcessClient, http: httpx.AsyncClient) -> None:
        for method, path in (("GET", ""), ("POST", ""), ("GET", "/a"), ("DELETE", "/a")):
            response = await http.request(method, f"/v1/prefixes{path}", headers={"authorization": "Bearer no"})
            assert response.status_code == 401
        assert (await pin(http, "a")).status_code == 200

    run(test, api_key="k")


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"prompt": "abc"}, "name"),
        ({"name": "", "prompt": "abc"}, "name"),
        ({"name": "a/../b", "prompt": "abc"}, "name"),
        ({"name": "x" * 65, "prompt": "abc"}, "name"),
        ({"name": "a"}, "prompt"),
        ({"name": "a", "prompt": "abc", "messages": []}, "prompt"),
        ({"name": "a", "prompt": "abc", "tools": [{}]}, "tools"),
        ({"name": "a", "prompt": "abc", "ttl": 0}, "ttl"),
        ({"name": "a", "prompt": "abc", "ttl": MAX_TTL_S + 1}, "ttl"),
        ({"name": "a", "prompt": "abc", "cache_salt": "s" * 257}, "cache_salt"),
        ({"name": "a", "prompt": "abc", "stream": True}, "stream"),
        ({"name": "a", "prompt": "abc", "time_to_live": 5}, "time_to_live"),
        ({"name": "a", "messages": [{"role": "user"}]}, "messages"),
    ],
)
def test_every_mistake_names_its_field(body: dict[str, Any], param: str) -> None:
    response = call("POST", "/v1/prefixes", json=body)
    assert response.status_code == 400
    assert response.json()["error"]["param"].partition("[")[0].partition(".")[0] == param


def test_a_prefix_that_cannot_be_kept_is_refused() -> None:
    async def test(_state: ServerState, _client: ProcessClient, http: httpx.AsyncClient) -> None:
        short = await pin(http, "short", [1, 2, 3])
        assert short.status_code == 400
        assert "whole blocks" in short.json()["error"]["message"]
        assert (await pin(http, "odd", [5, -1, 7, 8])).status_code == 400
        assert (await pin(http, "odd", [10**9] * 8)).status_code == 400
        assert (await pin(http, "long", [5] * 5000)).status_code == 400
        assert (await http.get("/v1/prefixes")).json()["data"] == []

    run(test)


def test_tenants_do_not_see_each_other() -> None:
    async def test(state: ServerState, _client: ProcessClient, _http: httpx.AsyncClient) -> None:
        for tenant in ("a", "b"):
            fields = PrefixRequest(name="same", prompt=PROMPT if tenant == "a" else PROMPT[:12])
            held = state.admission.enter(tenant)
            await make_prefix(state, fields, tenant, tenant, held)
            held.give_back()
        assert (await find_prefix(state, "same", "a")).num_tokens == 28
        assert (await find_prefix(state, "same", "b")).num_tokens == 12
        for tenant in ("", "c"):
            with pytest.raises(UnknownPrefix):
                await find_prefix(state, "same", tenant)
        assert read_samples(state.metrics)["tenant_prompt_tokens_total a"] == len(PROMPT)

    run(test)


def test_a_share_cannot_be_exceeded_by_asking_twice_at_once() -> None:
    async def test(state: ServerState, _client: ProcessClient, http: httpx.AsyncClient) -> None:
        cache = replace(state.config.cache, named_prefix_share=0.125)  # eight blocks
        state.engine.parts = replace(state.engine.parts, config=replace(state.config, cache=cache))
        prompts = [list(range(start, start + 3 * BLOCK)) for start in range(100, 700, 100)]
        answers = await asyncio.gather(*(pin(http, f"p{number}", prompt) for number, prompt in enumerate(prompts)))
        assert sorted(answer.status_code for answer in answers) == [200, 200, 429, 429, 429, 429]
        assert len((await http.get("/v1/prefixes")).json()["data"]) == 2

    run(test)
