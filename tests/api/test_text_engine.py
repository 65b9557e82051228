"""Requests from text to text on a fake engine."""

from __future__ import annotations

import asyncio
import threading
from contextlib import aclosing

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.api.fakes import ANSWER, BOS, FakeEngineClient, make_parts, text_tokens
from tests.engine.fakes import make_engine

from pelton.api.prompt import Prompt
from pelton.api.text_engine import INLINE_CHARACTERS, TextEngine, derive_seed
from pelton.core.outputs import CacheMiss
from pelton.core.sampling_params import SamplingParams
from pelton.engine.inprocess_client import InProcessClient
from pelton.errors import (
    CapacityError,
    DeadlineExceeded,
    EngineError,
    InternalError,
    RateLimited,
    RequestError,
    TooLong,
)

pytestmark = pytest.mark.unit


def collect(client: FakeEngineClient, prompts: list[tuple[int, ...]], sampling: SamplingParams) -> dict[int, str]:
    """The text of each answer."""

    async def run() -> dict[int, str]:
        engine = TextEngine(make_parts(client))
        texts: dict[int, str] = {}
        async for delta in engine.generate(prompts, sampling, request_id="r"):
            texts[delta.index] = texts.get(delta.index, "") + delta.text
        engine.close()
        return texts

    return asyncio.run(run())


def test_every_prompt_has_n_answers() -> None:
    client = FakeEngineClient(lambda r: text_tokens(f"{r.prompt_token_ids[0]}"))
    texts = collect(client, [(7,), (8,)], SamplingParams(n=2, max_tokens=20))
    assert texts == {0: "7", 1: "7", 2: "8", 3: "8"}
    assert [r.request_id for r in client.requests] == ["r-0", "r-1", "r-2", "r-3"]
    assert all(r.sampling.n == 1 for r in client.requests)


def test_seeds_follow_from_the_request_and_the_sample() -> None:
    client = FakeEngineClient()
    collect(client, [(7,), (8,)], SamplingParams(n=2, seed=3))
    seeds = [r.sampling.seed for r in client.requests]
    assert seeds[:2] == seeds[2:] == [3, derive_seed(3, 1)]
    collect(client, [(7,)], SamplingParams())
    assert client.requests[-1].sampling.seed == 0


@given(st.integers(-(2**63), 2**64 - 1), st.integers(0, 2000))
def test_derived_seeds_are_seeds(seed: int, sample: int) -> None:
    SamplingParams(seed=derive_seed(seed, sample))


def test_neighbouring_seeds_share_no_sample() -> None:
    seeds = [derive_seed(seed, sample) for seed in range(64) for sample in range(64)]
    assert len(set(seeds)) == len(seeds)


@pytest.mark.parametrize(
    ("prompt", "sampling", "error"),
    [
        ((), SamplingParams(), RequestError),
        ((1,) * 200, SamplingParams(), TooLong),
        ((1,) * 190, SamplingParams(max_tokens=11), TooLong),
        ((-1,), SamplingParams(), RequestError),
        ((1,), SamplingParams(stop_token_ids=(300,)), RequestError),
    ],
)
def test_the_engine_hears_nothing_of_a_request_that_cannot_run(
    prompt: tuple[int, ...], sampling: SamplingParams, error: type[EngineError]
) -> None:
    client = FakeEngineClient()
    with pytest.raises(error):
        collect(client, [(1,), prompt], sampling)
    assert client.requests == []


def test_closing_early_aborts_every_answer() -> None:
    async def run() -> None:
        client = FakeEngineClient()
        client.gate = asyncio.Event()
        engine = TextEngine(make_parts(client))
        async with aclosing(engine.generate([(1,)], SamplingParams(n=3), request_id="r")) as deltas:
            async for _ in deltas:
                break
        assert client.live == set()
        assert len(client.aborted) == 3
        engine.close()

    asyncio.run(run())


def test_errors_of_the_engine_depend_on_whether_it_lives() -> None:
    client = FakeEngineClient()
    client.fail_after = 0
    with pytest.raises(InternalError, match="r failed in the engine: the device is on fire"):
        collect(client, [(1,)], SamplingParams())
    client.problem = "it died"
    with pytest.raises(CapacityError, match="it died"):
        collect(client, [(1,)], SamplingParams())


@pytest.mark.parametrize("error", [CapacityError, RateLimited, DeadlineExceeded, RequestError, TooLong])
def test_the_engine_says_which_error_a_client_gets(error: type[EngineError]) -> None:
    client = FakeEngineClient()
    client.fail_after, client.error_class = 1, error.__name__
    with pytest.raises(error, match=r"^the device is on fire\.$") as caught:
        collect(client, [(1,)], SamplingParams())
    assert type(caught.value) is error
    client.error_class = "SystemExit"
    with pytest.raises(InternalError):
        collect(client, [(1,)], SamplingParams())


def test_long_texts_leave_the_event_loop() -> None:
    async def run() -> None:
        engine = TextEngine(make_parts())
        loop_thread = threading.get_ident()
        assert await engine.run_off_loop(INLINE_CHARACTERS, threading.get_ident) == loop_thread
        assert await engine.run_off_loop(INLINE_CHARACTERS + 1, threading.get_ident) != loop_thread
        assert await engine.tokenize("a" * 5000) == (BOS, *[97] * 5000)
        prompts = [Prompt(text="a"), Prompt(token_ids=(5,)), Prompt(text="b" * 5000)]
        assert await engine.resolve_prompts(prompts, add_special_tokens=False) == [(97,), (5,), (98,) * 5000]
        assert await engine.detokenize([97, 98]) == "ab"
        engine.close()

    asyncio.run(run())


def test_one_answer_keeps_the_requests_id() -> None:
    client = FakeEngineClient()
    assert collect(client, [(1,)], SamplingParams(max_tokens=50)) == {0: ANSWER}
    assert client.requests[0].request_id == "r"


@pytest.mark.parametrize(("policy", "priority"), [("fcfs", 0), ("priority", -7)])
def test_priority_counts_only_where_the_policy_says_so(policy: str, priority: int) -> None:
    async def run() -> None:
        client = FakeEngineClient()
        engine = TextEngine(make_parts(client, scheduling_policy=policy))
        async for _ in engine.generate([(1,)], SamplingParams(), request_id="r", priority=-7):
            pass
        engine.close()
        assert [request.priority for request in client.requests] == [priority]

    asyncio.run(run())


def test_prefix_is_kept_and_computed_if_it_must_be() -> None:
    async def run() -> None:
        client = InProcessClient(make_engine(num_blocks=32, block_size=4))
        engine = TextEngine(make_parts(client))
        try:
            prefix = tuple(range(10, 23))
            for request_id in ("first", "again"):  # the second time everything is there
                kept = await engine.keep_prefix("a", prefix, request_id=request_id, tenant="t", ttl_s=60.0)
                assert (kept.name, kept.num_tokens, kept.num_cached_tokens) == ("a", 12, 12)
            assert client.stats().num_prompt_tokens == 13
            with pytest.raises(RequestError, match="expected at least 4"):
                await engine.keep_prefix("b", (1, 2), request_id="short", tenant="t")
            with pytest.raises(TooLong):
                await engine.keep_prefix("b", (1,) * 300, request_id="long", tenant="t")
            assert [info.name for info in await client.list_prefixes("t")] == ["a"]
        finally:
            engine.close()
            await client.close()

    asyncio.run(run())


def test_deltas_explain_what_was_not_cached_if_asked() -> None:
    async def run() -> None:
        client = InProcessClient(make_engine(num_blocks=32, block_size=4))
        engine = TextEngine(make_parts(client))
        sampling = SamplingParams(max_tokens=2, ignore_eos=True)
        prompt = tuple(range(10, 23))
        try:
            for number, expected in enumerate((CacheMiss("new", 0), CacheMiss("hit", 12), None)):
                deltas = engine.generate([prompt], sampling, request_id=str(number), explain_cache=expected is not None)
                assert {delta.cache_miss async for delta in deltas} == {expected}
        finally:
            engine.close()
            await client.close()

    asyncio.run(run())
