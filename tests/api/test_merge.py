"""Merged generators: everything arrives, everything is closed, the first failure is the failure."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pelton.api.merge import merge

pytestmark = pytest.mark.unit


class Source:
    """Yields its items, fails or waits for ever at the end if told to, and knows when it was closed."""

    def __init__(self, items: list[int], end: str = "") -> None:
        self.items, self.end, self.is_closed = items, end, False

    async def run(self) -> AsyncGenerator[int]:
        try:
            for item in self.items:
                await asyncio.sleep(0)
                yield item
            if self.end == "fail":
                raise ValueError("broken")
            if self.end == "wait":
                await asyncio.Event().wait()
        finally:
            self.is_closed = True


@given(st.lists(st.lists(st.integers(), max_size=5), min_size=1, max_size=4))
def test_all_items_arrive_in_the_order_of_their_source(lists: list[list[int]]) -> None:
    async def run() -> None:
        sources = [Source([i * 1000 + j for j in range(len(items))]) for i, items in enumerate(lists)]
        got = [item async for item in merge([s.run() for s in sources])]
        for i, source in enumerate(sources):
            assert [item for item in got if item // 1000 == i] == source.items
            assert source.is_closed

    asyncio.run(run())


@pytest.mark.parametrize("count", [1, 3])
def test_closing_early_closes_every_source(count: int) -> None:
    async def run() -> None:
        sources = [Source([1], "wait") for _ in range(count)]
        async with aclosing(merge([s.run() for s in sources])) as merged:
            async for _ in merged:
                break
        assert all(s.is_closed for s in sources)

    asyncio.run(run())


@pytest.mark.parametrize("others", [0, 2])
def test_a_failure_ends_the_whole(others: int) -> None:
    async def run() -> None:
        sources = [Source([1], "fail"), *(Source([2], "wait") for _ in range(others))]
        with pytest.raises(ValueError, match="broken"):
            [item async for item in merge([s.run() for s in sources])]
        assert all(s.is_closed for s in sources)

    asyncio.run(run())
