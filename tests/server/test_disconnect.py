"""Work ends when its client leaves."""

from __future__ import annotations

import asyncio

import pytest
from starlette.types import Message

from pelton.server.disconnect import ClientGone, until_disconnect

pytestmark = pytest.mark.unit


class Wire:
    """A connection whose client leaves when told to."""

    def __init__(self) -> None:
        self.left = asyncio.Event()
        self.num_receiving = 0

    async def receive(self) -> Message:
        self.num_receiving += 1
        try:
            await self.left.wait()
        finally:
            self.num_receiving -= 1
        return {"type": "http.disconnect"}


def test_the_result_comes_through_and_nobody_watches_on() -> None:
    async def run() -> None:
        wire = Wire()

        async def work() -> int:
            await asyncio.sleep(0)
            return 5

        assert await until_disconnect(wire.receive, work()) == 5
        assert wire.num_receiving == 0

    asyncio.run(run())


def test_a_failure_comes_through() -> None:
    async def work() -> int:
        raise ValueError("broken")

    async def run() -> None:
        with pytest.raises(ValueError, match="broken"):
            await until_disconnect(Wire().receive, work())

    asyncio.run(run())


@pytest.mark.parametrize("is_cancelled_from_outside", [False, True])
def test_the_work_has_ended_before_anybody_goes_on(is_cancelled_from_outside: bool) -> None:
    async def run() -> None:
        wire = Wire()
        has_started, steps = asyncio.Event(), []

        async def work() -> None:
            has_started.set()
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0)
                steps.append("cleaned up")

        task = asyncio.create_task(until_disconnect(wire.receive, work()))
        await has_started.wait()
        if is_cancelled_from_outside:
            task.cancel()
        else:
            wire.left.set()
        with pytest.raises((ClientGone, asyncio.CancelledError)):
            await task
        assert steps == ["cleaned up"]
        assert wire.num_receiving == 0

    asyncio.run(run())
