"""Outputs find their readers, slow readers get them merged, and every request ends once."""

import asyncio
from collections.abc import Awaitable

import pytest
from tests.engine.fakes import make_request

from pelton.core.outputs import RequestOutput, Timings
from pelton.core.step import RequestId, TokenLogprobs
from pelton.engine.live_request import LiveRequests, merge_outputs, read_to_end
from pelton.errors import RequestError

pytestmark = pytest.mark.unit


def output(name: str, *token_ids: int, **fields: object) -> RequestOutput:
    return RequestOutput(request_id=RequestId(name), token_ids=token_ids, **fields)  # type: ignore[arg-type]


def run(test: Awaitable[None]) -> None:
    asyncio.run(asyncio.wait_for(test, 10))  # type: ignore[arg-type]


def test_merged_outputs_say_what_both_say() -> None:
    first = output("a", 1, logprobs=(TokenLogprobs(-1.0),), num_cached_tokens=4)
    second = output(
        "a", 2, 3, logprobs=(TokenLogprobs(-2.0), TokenLogprobs(-3.0)), finish_reason="stop", stop_token_id=3,
        timings=Timings(arrival_s=1.0),
    )  # fmt: skip
    assert merge_outputs(first, second) == output(
        "a", 1, 2, 3, logprobs=(TokenLogprobs(-1.0), TokenLogprobs(-2.0), TokenLogprobs(-3.0)),
        finish_reason="stop", stop_token_id=3, num_cached_tokens=4, timings=Timings(arrival_s=1.0),
    )  # fmt: skip


def test_slow_reader_gets_one_output() -> None:
    async def test() -> None:
        requests = LiveRequests()
        live = requests.open(make_request("a", outputs=(8,)))
        requests.deliver([output("a", 1), output("a", 2), output("nobody", 5)])
        assert await live.read() == output("a", 1, 2)
        assert live.output_token_ids == [8, 1, 2]
        requests.deliver([output("a", 3, finish_reason="length")])
        requests.deliver([output("a", finish_reason="error")])
        assert await live.read() == output("a", 3, finish_reason="length")
        assert len(requests) == 0

    run(test())


def test_id_in_use() -> None:
    async def test() -> None:
        requests = LiveRequests()
        requests.open(make_request("a")).is_sent = True
        with pytest.raises(RequestError, match="'a' is in use"):
            requests.open(make_request("a"))
        assert requests.leave(RequestId("a"))
        assert not requests.leave(RequestId("a"))
        with pytest.raises(RequestError, match="'a' is in use"):
            requests.open(make_request("a"))  # or the first one's last output would end it
        requests.deliver([output("a", 1), output("a", finish_reason="abort")])
        live = requests.open(make_request("a"))
        requests.deliver([output("a", 2)])
        assert await live.read() == output("a", 2)
        live.is_sent = True
        requests.leave(RequestId("a"))
        requests.unsend_all()
        requests.open(make_request("a"))
        requests.leave(RequestId("a"))
        requests.open(make_request("a"))  # the engine has never heard of the one that left

    run(test())


@pytest.mark.parametrize("reads_all", [True, False])
def test_engine_is_told_of_readers_that_leave_early(reads_all: bool) -> None:
    async def test() -> None:
        requests, told = LiveRequests(), []
        live = requests.open(make_request("a"))
        outputs = read_to_end(live, requests, told.append)
        requests.deliver([output("a", 1)])
        assert (await anext(outputs)).token_ids == (1,)
        if reads_all:
            requests.end_all("error", "gone")
            assert [out.error async for out in outputs] == ["gone"]
        await outputs.aclose()
        assert told == ([] if reads_all else ["a"])
        assert len(requests) == 0

    run(test())


def test_waiting_for_the_last_to_end() -> None:
    async def test() -> None:
        requests = LiveRequests()
        assert await requests.wait_until_empty(0.1)
        requests.open(make_request("a"))
        assert not await requests.wait_until_empty(0.001)
        waiting = asyncio.create_task(requests.wait_until_empty(5.0))
        await asyncio.sleep(0)
        requests.end_all("abort")
        assert await waiting

    run(test())
