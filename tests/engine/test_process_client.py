"""A real engine process that is killed, stuck, raises, lies: every request ends, and the next engine serves."""

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import msgspec
import pytest
from tests.engine.fake_engine_main import Behaviour
from tests.engine.fakes import compute_continuation, make_request

from pelton.core.outputs import RequestOutput
from pelton.core.step import NewRequest, RequestId
from pelton.engine.process_client import ProcessClient
from pelton.engine.supervisor import Patience
from pelton.errors import CapacityError, CheckpointError, EngineError, RequestError, TooLong, TransferError

pytestmark = pytest.mark.cpu  # real processes

MAIN = Path(__file__).parent / "fake_engine_main.py"
PATIENCE = Patience(first_backoff_s=0.01, max_restarts=3)


def make_client(patience: Patience = PATIENCE, **behaviour: object) -> ProcessClient:
    config = msgspec.msgpack.encode(Behaviour(**behaviour))  # type: ignore[arg-type]
    return ProcessClient([sys.executable, str(MAIN)], config, patience)


@contextlib.asynccontextmanager
async def running(patience: Patience = PATIENCE, **behaviour: object) -> AsyncIterator[ProcessClient]:
    client = make_client(patience, **behaviour)
    await client.start()
    try:
        yield client
    finally:
        await client.close()


async def collect(client: ProcessClient, request: NewRequest) -> list[RequestOutput]:
    return [output async for output in client.generate(request)]


def get_tokens(outputs: list[RequestOutput]) -> list[int]:
    return [token_id for output in outputs for token_id in output.token_ids]


async def until(condition: Callable[[], bool], timeout_s: float = 10.0) -> None:
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline_s, "waited in vain"
        await asyncio.sleep(0.005)


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        await asyncio.wait_for(test(), 60)

    asyncio.run(bounded())


def test_requests_are_served_and_the_engine_ends_with_the_client() -> None:
    async def test() -> None:
        async with running() as client:
            assert client.health_problem() is None
            assert client.facts.details == {"model": "hash"}
            requests = [make_request(str(number), 5 + number, 20) for number in range(16)]
            for request, outputs in zip(
                requests, await asyncio.gather(*(collect(client, request) for request in requests)), strict=True
            ):
                assert get_tokens(outputs) == compute_continuation(request.prompt_token_ids, 20)
                assert [output.finish_reason for output in outputs if output.finish_reason] == ["length"]
            await until(lambda: client.stats().num_generation_tokens == 320)
            assert client.stats().num_free_blocks == 64
            pid = client.engine_pid
        assert pid is not None
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
        assert client.health_problem() == "The server is shutting down."

    run(test)


def test_progress_is_heard() -> None:
    async def test() -> None:
        client, heard = make_client(), []
        await client.start(lambda stage, fraction: heard.append((stage, fraction)))
        await client.close()
        assert heard == [("weights", 0.5)]

    run(test)


def test_what_can_never_run_is_refused_before_it_is_sent() -> None:
    async def test() -> None:
        async with running() as client:
            with pytest.raises(TooLong, match="max_model_len=256"):
                await collect(client, make_request("a", 300))
            with pytest.raises(RequestError, match="token id 5000"):
                await collect(client, make_request("a", [5000]))
            await collect(client, make_request("a"))

    run(test)


def test_request_id_in_use_is_refused_and_the_first_goes_on() -> None:
    async def test() -> None:
        async with running(step_s=0.01) as client:
            first = asyncio.create_task(collect(client, make_request("a", 5, 10)))
            await until(lambda: client.stats().num_generation_tokens > 0)
            with pytest.raises(RequestError, match="in use"):
                await collect(client, make_request("a"))
            assert len(get_tokens(await first)) == 10

    run(test)


@pytest.mark.parametrize("how", ["abort", "close"])
def test_abort_frees_everything(how: str) -> None:
    async def test() -> None:
        async with running(step_s=0.005) as client:
            outputs = client.generate(make_request("a", 5, 200))
            await anext(outputs)
            if how == "abort":
                await client.abort(RequestId("a"))
                assert [output.finish_reason async for output in outputs][-1] == "abort"
            else:
                await outputs.aclose()  # type: ignore[attr-defined]
            await until(lambda: client.stats().num_steps > 0 and client.stats().num_free_blocks == 64)
            assert client.stats().num_generation_tokens < 200
            await client.abort(RequestId("unknown"))

    run(test)


@pytest.mark.parametrize(
    ("fault", "pattern"),
    [
        ("raise", "ValueError in step"),
        ("exit", "died (exit code 3)"),
        ("segfault", "killed by SIGSEGV"),
        ("stall", "all its threads wait for something"),
        ("garbage", "a frame begins with b'no'"),
        ("version", "schema version 99"),
    ],
)
def test_a_request_that_takes_the_engine_with_it_twice_fails_alone(fault: str, pattern: str) -> None:
    async def test() -> None:
        async with running(fault=fault, step_s=0.001) as client:
            pid = client.engine_pid
            bad = make_request("bad", [1, 2, 3], 200)
            others = [make_request(str(number), [2, number], 200) for number in range(6)]
            bad_outputs, *other_outputs = await asyncio.gather(
                *(collect(client, request) for request in (bad, *others))
            )
            assert [output.finish_reason for output in bad_outputs if output.finish_reason] == ["error"]
            assert bad_outputs[-1].error is not None
            assert "twice while it computed this request, the second time alone" in bad_outputs[-1].error
            assert pattern in bad_outputs[-1].error
            for request, outputs in zip(others, other_outputs, strict=True):
                check_answer(request, outputs)
                assert outputs[-1].timings.num_restarts > 0
            assert client.num_restarts == 3  # the last suspect is first tried beside those that were cleared
            assert client.engine_pid != pid
            request = make_request("bad", [2, 2, 3], 8)  # the id is free again
            check_answer(request, await collect(client, request))

    run(test)


def check_answer(request: NewRequest, outputs: list[RequestOutput]) -> None:
    """As if nothing had happened."""
    assert request.sampling.max_tokens is not None
    assert [output.finish_reason for output in outputs if output.finish_reason] == ["length"], outputs[-1].error
    assert get_tokens(outputs) == compute_continuation(request.prompt_token_ids, request.sampling.max_tokens)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_streams_go_on_when_the_engine_is_killed_or_stopped(number: signal.Signals) -> None:
    async def test() -> None:
        async with running(step_s=0.002) as client:
            requests = [make_request(str(index), [3, index], 40 + 20 * (index % 5)) for index in range(40)]  # 32 run
            streams = [asyncio.create_task(collect(client, request)) for request in requests]
            for _ in range(2):
                tokens = client.stats().num_generation_tokens
                await until(lambda tokens=tokens: client.stats().num_generation_tokens > tokens + 20)  # type: ignore[misc]
                pid, started_s = client.engine_pid, time.monotonic()
                assert pid is not None
                os.kill(pid, number)
                await until(lambda: client.health_problem() is not None)
                assert client.refusal() is None
                await until(lambda: client.health_problem() is None)
                assert client.engine_pid != pid
                assert time.monotonic() - started_s < 20
            late = make_request("late", [3, 3, 3], 5)
            streams.append(asyncio.create_task(collect(client, late)))
            for request, outputs in zip([*requests, late], await asyncio.gather(*streams), strict=True):
                check_answer(request, outputs)
            assert client.num_restarts == 2

    run(test)


def test_who_comes_and_who_leaves_while_there_is_no_engine() -> None:
    async def test() -> None:
        async with running(step_s=0.005) as client:
            stays, leaves = make_request("stays", 4, 50), make_request("leaves", 4, 50)
            staying = asyncio.create_task(collect(client, stays))
            leaving = client.generate(leaves)
            await anext(leaving)
            assert client.engine_pid is not None
            os.kill(client.engine_pid, signal.SIGKILL)
            pid = client.engine_pid
            await until(lambda: client.engine_pid != pid)  # its end has been noticed
            await leaving.aclose()  # type: ignore[attr-defined]
            again, new = make_request("leaves", 5, 7), make_request("new", 5, 9)
            answers = await asyncio.gather(staying, collect(client, again), collect(client, new))
            for request, outputs in zip((stays, again, new), answers, strict=True):
                check_answer(request, outputs)
            assert client.num_restarts == 1
            await until(lambda: client.stats().num_free_blocks == 64)

    run(test)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_who_is_aborted_while_there_is_no_engine_ends_and_is_not_sent_again(number: signal.Signals) -> None:
    async def test() -> None:
        async with running(step_s=0.005) as client:
            request, other = make_request("a", 4, 200), make_request("b", 4, 50)
            stream, staying = client.generate(request), asyncio.create_task(collect(client, other))
            await anext(stream)
            assert client.engine_pid is not None
            os.kill(client.engine_pid, number)
            await client.abort(request.request_id)  # the engine is told, and never hears it
            late = asyncio.create_task(collect(client, make_request("late", 4, 200)))
            if number == signal.SIGKILL:
                await until(lambda: client.health_problem() is not None)
                await client.abort(RequestId("late"))  # no engine has it
                assert (await late)[-1].finish_reason == "abort"
            late.cancel()
            assert [output.finish_reason async for output in stream][-1] == "abort"
            check_answer(other, await staying)
            assert client.num_restarts == 1
            await until(lambda: client.stats().num_free_blocks == 64)
            assert client.stats().num_generation_tokens < 200

    run(test)


def test_several_that_take_the_engine_with_them_spend_no_budget() -> None:
    async def test() -> None:
        async with running(Patience(first_backoff_s=60.0, max_restarts=2), fault="exit", step_s=0.001) as client:
            bad = [make_request(f"bad {number}", [1, number, 3, 4, 5], 200) for number in range(4)]
            good = make_request("good", [2, 3], 100)
            *ends, good_outputs = await asyncio.gather(*(collect(client, each) for each in (*bad, good)))
            assert [outputs[-1].finish_reason for outputs in ends] == ["error"] * 4
            assert all("the second time alone" in str(outputs[-1].error) for outputs in ends)
            check_answer(good, good_outputs)

    run(test)


def test_a_drain_lasts_longer_than_an_engine() -> None:
    async def test() -> None:
        client = make_client(step_s=0.005)
        await client.start()
        request = make_request("a", 4, 60)
        stream = asyncio.create_task(collect(client, request))
        await until(lambda: client.stats().num_generation_tokens > 3)
        closing = asyncio.create_task(client.close(20.0))
        await asyncio.sleep(0)
        assert client.engine_pid is not None
        os.kill(client.engine_pid, signal.SIGKILL)
        await until(lambda: client.num_restarts == 1)
        with pytest.raises(CapacityError, match="shutting down"):
            await collect(client, make_request("b"))
        check_answer(request, await stream)
        await closing

    run(test)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_meant_for_the_server_leave_the_engine_alone(number: signal.Signals) -> None:
    async def test() -> None:
        async with running(step_s=0.001) as client:
            assert client.engine_pid is not None
            os.kill(client.engine_pid, number)
            assert len(get_tokens(await collect(client, make_request("a", 5, 20)))) == 20
            assert client.num_restarts == 0

    run(test)


@pytest.mark.parametrize(
    ("fault", "error", "pattern"),
    [
        ("checkpoint", CheckpointError, r"^model\.gguf: it is truncated\.$"),
        ("exit", TransferError, r"ended before it was ready: .*exit code 7"),
        ("hang", TransferError, r"no sign of life for 0.5 s"),
    ],
)
def test_failure_of_the_first_start_is_raised(fault: str, error: type[EngineError], pattern: str) -> None:
    async def test() -> None:
        client = make_client(Patience(start_timeout_s=0.5), fault_at_start=fault)
        with pytest.raises(error, match=pattern):
            await client.start()
        assert client.engine_pid is None
        with pytest.raises(CapacityError, match="could not be started"):
            await collect(client, make_request("a"))
        await client.close()

    run(test)


def test_command_that_does_not_exist() -> None:
    async def test() -> None:
        client = ProcessClient(["/does/not/exist"], b"")
        with pytest.raises(TransferError, match="cannot be started"):
            await client.start()

    run(test)


def test_restarts_end_when_the_budget_is_spent() -> None:
    async def test() -> None:
        async with running(Patience(first_backoff_s=0.01, max_restarts=1), fault="exit") as client:
            bad, waits = make_request("bad", [1, 2, 3, 4, 5], 200), make_request("waits", 5)
            blamed = (await collect(client, bad))[-1]
            assert "the second time alone" in str(blamed.error)  # which is known, and does not count
            losing = asyncio.create_task(client.wait_until_lost())
            ends = [outputs[-1] for outputs in await asyncio.gather(collect(client, bad), collect(client, waits))]
            assert [end.finish_reason for end in ends] == ["error", "error"]
            for end in ends:
                assert "failed 2 times in a row and is not restarted" in str(end.error)
            assert "failed 2 times in a row" in await losing
            assert "is not restarted" in (client.health_problem() or "")
            with pytest.raises(CapacityError, match="failed 2 times in a row"):
                await collect(client, make_request("a"))

    run(test)


def test_an_engine_that_fails_with_every_request_is_given_up() -> None:
    async def test() -> None:
        patience = Patience(first_backoff_s=0.01, max_restarts=2, max_explained=2)
        async with running(patience, fault="exit") as client:
            ends = [(await collect(client, make_request(name, [1, 2, 3, 4, 5], 9)))[-1] for name in "abc"]
            assert [end.finish_reason for end in ends] == ["error"] * 3
            assert "alone" in str(ends[0].error)
            await client.wait_until_lost()
            assert "failed 3 times in a row" in (client.health_problem() or "")

    run(test)


def test_close_lets_requests_run_to_their_end_or_aborts_them() -> None:
    async def test() -> None:
        for drain_timeout_s, reason in ((10.0, "length"), (0.05, "abort"), (0.0, "abort")):
            client = make_client(step_s=0.01)
            await client.start()
            stream = asyncio.create_task(collect(client, make_request("a", 5, 40)))
            await until(lambda client=client: client.stats().num_generation_tokens > 0)  # type: ignore[misc]
            closing = asyncio.create_task(client.close(drain_timeout_s))
            await asyncio.sleep(0)
            with pytest.raises(CapacityError, match="shutting down"):
                await collect(client, make_request("b"))
            await closing
            assert (await stream)[-1].finish_reason == reason

    run(test)
