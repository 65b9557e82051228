"""The same contract as the process client's, on a thread."""

import asyncio
import threading
from collections.abc import Awaitable, Callable

import pytest
from tests.engine.fakes import HashExecutor, compute_continuation, make_engine, make_request

from pelton.core.messages import Hello
from pelton.core.outputs import RequestOutput
from pelton.core.step import ModelRunnerOutput, NewRequest, RequestId, SchedulerOutput
from pelton.engine.inprocess_client import InProcessClient
from pelton.errors import CapacityError, RequestError, TooLong

pytestmark = pytest.mark.unit


class GatedExecutor(HashExecutor):
    """Needs a permit for every step. Raises if `error` is set."""

    def __init__(self) -> None:
        super().__init__(64, 4)
        self.permits = threading.Semaphore(0)
        self.is_in_step = threading.Event()
        self.error: Exception | None = None

    def execute(self, step: SchedulerOutput) -> ModelRunnerOutput:
        """Wait, then compute."""
        self.is_in_step.set()
        assert self.permits.acquire(timeout=10)
        if self.error is not None:
            raise self.error
        return super().execute(step)


def run(test: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), 20))  # type: ignore[arg-type]


async def collect(client: InProcessClient, request: NewRequest) -> list[RequestOutput]:
    return [output async for output in client.generate(request)]


def test_requests_are_served() -> None:
    async def test() -> None:
        executor = HashExecutor(64, 4)
        client = InProcessClient(make_engine(executor=executor))
        requests = [make_request(str(number), 5 + number, 9) for number in range(12)]
        for request, outputs in zip(
            requests, await asyncio.gather(*(collect(client, request) for request in requests)), strict=True
        ):
            tokens = [token for output in outputs for token in output.token_ids]
            assert tokens == compute_continuation(request.prompt_token_ids, 9)
        assert client.facts.num_blocks == 64
        await client.close()
        assert client.stats().num_generation_tokens == 108
        assert executor.is_closed
        with pytest.raises(CapacityError, match="closed"):
            await collect(client, make_request("late"))

    run(test)


def test_refusals_come_at_once() -> None:
    async def test() -> None:
        executor = GatedExecutor()
        client = InProcessClient(make_engine(executor=executor))
        with pytest.raises(TooLong):
            await collect(client, make_request("a", 300))
        first = asyncio.create_task(collect(client, make_request("a")))
        await asyncio.to_thread(executor.is_in_step.wait, 10)
        with pytest.raises(RequestError, match="in use"):
            await collect(client, make_request("a"))
        executor.permits.release(1000)
        assert (await first)[-1].finish_reason == "length"
        await client.close()

    run(test)


@pytest.mark.parametrize("how", ["abort", "leave"])
def test_abort(how: str) -> None:
    async def test() -> None:
        executor = GatedExecutor()
        executor.permits.release(1)
        client = InProcessClient(make_engine(executor=executor))
        outputs = client.generate(make_request("a", 5, 200))
        await anext(outputs)
        if how == "abort":
            await client.abort(RequestId("a"))
            executor.permits.release(1000)
            assert [output.finish_reason async for output in outputs][-1] == "abort"
        else:
            await outputs.aclose()
            executor.permits.release(1000)
        await client.close()
        assert client.stats().num_free_blocks == 64
        assert client.stats().num_steps <= 2

    run(test)


def test_executor_that_raises() -> None:
    async def test() -> None:
        executor = GatedExecutor()
        executor.error = ValueError("a kernel failed")
        executor.permits.release(1000)
        client = InProcessClient(make_engine(executor=executor))
        outputs = await collect(client, make_request("a"))
        assert outputs[-1].finish_reason == "error"
        assert "a kernel failed" in (client.health_problem() or "")
        with pytest.raises(CapacityError, match="a kernel failed"):
            await collect(client, make_request("b"))
        await client.close()

    run(test)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_thread_that_ends_answers_everybody() -> None:
    async def test() -> None:
        executor = GatedExecutor()
        client = InProcessClient(make_engine(executor=executor))
        stream = asyncio.create_task(collect(client, make_request("a")))
        await asyncio.to_thread(executor.is_in_step.wait, 10)
        client._messages.put(Hello("out of place", b""))
        executor.permits.release(1000)
        assert (await stream)[-1].error == "The engine's thread has ended."
        with pytest.raises(CapacityError, match="has ended"):
            await collect(client, make_request("b"))
        await client.close()

    run(test)


def test_stuck_step_is_a_health_problem() -> None:
    async def test() -> None:
        now = [0.0]
        executor = GatedExecutor()
        engine = make_engine(executor=executor)
        engine._clock = lambda: now[0]
        client = InProcessClient(engine, stall_timeout_s=5.0, clock=lambda: now[0])
        stream = asyncio.create_task(collect(client, make_request("a")))
        await asyncio.to_thread(executor.is_in_step.wait, 10)
        assert client.health_problem() is None
        now[0] = 6.0
        assert client.health_problem() == "The engine is stuck: a step has run for 6 s."
        executor.permits.release(1000)
        await stream
        await client.close()

    run(test)


def test_close_drains_or_aborts() -> None:
    async def test() -> None:
        for drain_timeout_s, reason in ((10.0, "length"), (0.0, "abort")):
            executor = GatedExecutor()
            client = InProcessClient(make_engine(executor=executor))
            stream = asyncio.create_task(collect(client, make_request("a", 5, 3)))
            await asyncio.to_thread(executor.is_in_step.wait, 10)
            closing = asyncio.create_task(client.close(drain_timeout_s))
            await asyncio.sleep(0)
            executor.permits.release(1000)
            await closing
            assert (await stream)[-1].finish_reason == reason

    run(test)
