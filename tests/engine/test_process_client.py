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
IMPATIENCE = Patience(first_backoff_s=0.01, max_restarts=3, stall_timeout_s=0.7)


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


async def check_survives(client: ProcessClient, pattern: str, provoke: Callable[[], None] | None = None) -> None:
    """Two streams, then the fault: both end with a sentence, and the next engine serves."""
    pid = client.engine_pid
    streams = [
        asyncio.create_task(collect(client, make_request(name, [first, 2, 3], 200)))
        for name, first in (("bad", 1), ("bystander", 2))
    ]
    if provoke is not None:
        await until(lambda: client.stats().num_generation_tokens > 2)
        provoke()
    for outputs in await asyncio.gather(*streams):
        assert [output.finish_reason for output in outputs if output.finish_reason] == ["error"]
        assert outputs[-1].error is not None
        assert pattern in outputs[-1].error
    await until(lambda: client.num_restarts == 1 and client.health_problem() is None)
    assert client.engine_pid != pid
    request = make_request("bystander", [2, 2, 3], 8)
    assert get_tokens(await collect(client, request)) == compute_continuation([2, 2, 3], 8)


@pytest.mark.parametrize(
    ("fault", "pattern"),
    [
        ("raise", "ValueError in step 2: a kernel failed"),
        ("exit", "died (exit code 3)"),
        ("stall", "stuck: no step finished for 1 s"),
        ("garbage", "a frame begins with b'no'"),
        ("version", "schema version 99"),
    ],
)
def test_engine_that_fails_is_replaced(fault: str, pattern: str) -> None:
    async def test() -> None:
        patience = IMPATIENCE if fault == "stall" else PATIENCE
        async with running(patience, fault=fault, step_s=0.001) as client:
            await check_survives(client, pattern)

    run(test)


@pytest.mark.parametrize(
    ("number", "pattern"), [(signal.SIGKILL, "killed by SIGKILL"), (signal.SIGSTOP, "stuck: no step finished")]
)
def test_engine_that_is_killed_or_stopped_is_replaced(number: signal.Signals, pattern: str) -> None:
    async def test() -> None:
        patience = IMPATIENCE if number == signal.SIGSTOP else PATIENCE
        async with running(patience, step_s=0.01) as client:
            pid = client.engine_pid
            assert pid is not None
            await check_survives(client, pattern, lambda: os.kill(pid, number))

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
        patience = Patience(first_backoff_s=0.01, max_restarts=1)
        async with running(patience, fault="exit") as client:
            for attempt in range(2):
                await until(lambda: client.health_problem() is None)
                outputs = await collect(client, make_request("bad", [1, 2, 3], 200))
                assert outputs[-1].finish_reason == "error", attempt
            await until(lambda: "is not restarted" in (client.health_problem() or ""))
            with pytest.raises(CapacityError, match="failed 2 times in a row"):
                await collect(client, make_request("a"))

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
