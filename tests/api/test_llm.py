"""LLM: plain calls from any thread, on a fake engine."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType
from typing import Any

import pytest
from tests.api.fakes import ANSWER, BOS, FakeEngineClient, make_parts

from pelton import LLM, SamplingParams
from pelton.errors import CheckpointError, RequestError

pytestmark = pytest.mark.unit


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> FakeEngineClient:
    """The engine that every LLM of the test gets."""
    fake = FakeEngineClient()
    module = ModuleType("pelton.api.assemble")

    async def start_in_process(asked: Any, on_progress: Any) -> Any:
        if asked.get("model") == "broken":
            raise CheckpointError("it is broken")
        return make_parts(fake)

    module.start_in_process = start_in_process  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pelton.api.assemble", module)
    return fake


@pytest.fixture
def llm(client: FakeEngineClient) -> Iterator[LLM]:
    """An LLM around `client`."""
    with LLM("tiny", max_model_len=64) as made:
        yield made


LONG = SamplingParams(max_tokens=50)


@pytest.mark.parametrize(
    ("prompts", "token_ids"),
    [
        ("a", [(BOS, 97)]),
        (["a", "b"], [(BOS, 97), (BOS, 98)]),
        ([1, 2], [(1, 2)]),
        ([[1], [2, 3]], [(1,), (2, 3)]),
        ({"prompt_token_ids": [4]}, [(4,)]),
        ([{"prompt": "a"}, [5]], [(BOS, 97), (5,)]),
        ([], []),
    ],
)
def test_every_form_of_prompts(llm: LLM, prompts: Any, token_ids: list[tuple[int, ...]]) -> None:
    outputs = llm.generate(prompts, LONG, use_tqdm=False)
    assert [o.prompt_token_ids for o in outputs] == token_ids
    assert all(o.outputs[0].text == o.text == ANSWER for o in outputs)


def test_each_prompt_may_have_its_own_sampling(llm: LLM, client: FakeEngineClient) -> None:
    outputs = llm.generate(["a", "b"], [SamplingParams(max_tokens=1), SamplingParams(max_tokens=2)])
    assert [o.text for o in outputs] == [ANSWER[:1], ANSWER[:2]]
    with pytest.raises(RequestError, match="1 given for 2 prompts"):
        llm.generate(["a", "b"], [LONG])


def test_a_prompt_that_cannot_run_ends_all(llm: LLM, client: FakeEngineClient) -> None:
    with pytest.raises(RequestError, match="max_model_len"):
        llm.generate(["a", "b" * 500, "c"], LONG)
    assert client.live == set()
    assert llm.generate("a", LONG)[0].text == ANSWER


def test_chat_with_one_or_many_conversations(llm: LLM) -> None:
    one = [{"role": "user", "content": "hi"}]
    assert [o.prompt for o in llm.chat(one)] == ["[hi]"]
    assert [o.prompt for o in llm.chat([one, [{"role": "user", "content": "ho"}]])] == ["[hi]", "[ho]"]
    assert llm.tokenize("ab") == [BOS, 97, 98]
    assert llm.detokenize([97, 98]) == "ab"


def test_calls_may_come_from_many_threads(llm: LLM) -> None:
    with ThreadPoolExecutor(8) as pool:
        texts = list(pool.map(lambda _: llm.generate("a", LONG)[0].text, range(32)))
    assert texts == [ANSWER] * 32


def test_it_works_inside_a_running_event_loop(llm: LLM) -> None:
    async def inside() -> str:
        return llm.generate("a", LONG)[0].text

    assert asyncio.run(inside()) == ANSWER


def test_a_failed_start_raises_and_leaves_no_thread(client: FakeEngineClient) -> None:
    with pytest.raises(CheckpointError, match="it is broken"):
        LLM("broken")


def test_a_closed_one_says_so(client: FakeEngineClient) -> None:
    llm = LLM("tiny")
    llm.close()
    llm.close()
    assert client.is_closed
    with pytest.raises(RequestError, match="closed"):
        llm.generate("a")


def test_one_that_nobody_holds_is_closed(client: FakeEngineClient) -> None:
    llm = LLM("tiny")
    thread = llm._thread
    del llm
    gc.collect()
    assert client.is_closed
    assert not thread.is_alive()
