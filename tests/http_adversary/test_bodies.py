"""Every field of every route with wrong values, from the server's own description; innocents notice nothing."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import httpx
import pytest
from tests.end_to_end.served import Served, serve
from tests.http_adversary.bodies import (
    BASES,
    GOOD,
    HOSTILE,
    INNER,
    NEEDS,
    RandomCases,
    find_fields,
    good_case,
    single_cases,
)
from tests.http_adversary.storm import FLAGS, Target, aim, storm

from pelton.server.app import ROUTES
from pelton.server.docs_page import make_openapi

FIELDS = find_fields(make_openapi(ROUTES))
NUM_PLACES = sum(len(names) for names in FIELDS.values())


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serve("oracle", *FLAGS) as running:
        yield running
        assert running.end() == 0


def attack(served: Served, make: Callable[[Target, dict[str, list[str]]], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        async with httpx.AsyncClient(base_url=served.url, timeout=30) as http:
            target, fields = await aim(served, http)
            async with target.with_innocents():
                await make(target, fields)

    asyncio.run(asyncio.wait_for(run(), 200))


@pytest.mark.unit
def test_the_tables_know_every_field() -> None:
    assert set(BASES) == set(FIELDS)
    names = {name for fields in FIELDS.values() for name in fields}
    without_effect = {name for row in ROUTES if row.schema for name in row.schema.without_effect}
    assert names - without_effect == set(GOOD)
    assert set(INNER) | set(NEEDS) <= names
    assert len(set(HOSTILE)) == len(HOSTILE)


@pytest.mark.cpu
def test_every_field_takes_a_good_value(served: Served) -> None:
    async def make(target: Target, fields: dict[str, list[str]]) -> None:
        for path, names in fields.items():
            for name in set(names) & set(GOOD):
                case = good_case(path, name)
                answer = await target.http.post(path, content=case.body, headers={"content-type": "application/json"})
                assert answer.status_code == 200, f"{path} {case.body!r} {answer.text}"

    attack(served, make)


@pytest.mark.cpu
def test_every_field_refuses_what_is_wrong_by_its_name(served: Served) -> None:
    async def make(target: Target, fields: dict[str, list[str]]) -> None:
        cases = list(single_cases(fields))
        assert len(cases) > len(HOSTILE) * NUM_PLACES
        problems = await storm(target, cases[::7])  # 7 and the number of values have no factor in common
        assert not problems, "\n".join(problems[:10])
        assert target.statuses[400] > 2000
        assert target.num_innocents > 10

    assert len(HOSTILE) % 7
    attack(served, make)


@pytest.mark.cpu
def test_drawn_requests_are_answered_as_they_may_be(served: Served) -> None:
    async def make(target: Target, fields: dict[str, list[str]]) -> None:
        drawn = RandomCases(fields, 1)
        problems = await storm(target, (drawn.make() for _ in range(3000)))
        assert not problems, "\n".join(problems[:10])
        assert set(target.statuses) >= {200, 400}

    attack(served, make)


@pytest.mark.unit
def test_the_same_seed_draws_the_same_requests() -> None:
    first, second, other = (RandomCases(FIELDS, seed) for seed in (1, 1, 2))
    assert [first.make() for _ in range(50)] == [second.make() for _ in range(50)] != [other.make() for _ in range(50)]


@pytest.mark.cpu
@pytest.mark.parametrize("path", list(BASES))
def test_other_content_types_are_refused(served: Served, path: str) -> None:
    body = json.dumps(BASES[path])
    for kind in (
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=a",
        "application/x-pickle",
    ):
        answer = httpx.post(served.url + path, content=body, headers={"content-type": kind})
        assert (answer.status_code, kind.partition(";")[0] in answer.text) == (415, True)


@pytest.mark.cpu
def test_a_large_text_keeps_nobody_waiting(served: Served) -> None:
    async def make(target: Target, _fields: dict[str, list[str]]) -> None:
        large = json.dumps({"prompt": "a" * 3_000_000}).encode()
        heads = {"content-type": "application/json"}
        sending = asyncio.create_task(target.http.post("/v1/completions", content=large, headers=heads))
        longest_s = 0.0
        while not sending.done():
            started_s = time.monotonic()
            assert (await target.http.get("/health")).status_code == 200
            longest_s = max(longest_s, time.monotonic() - started_s)
            await asyncio.sleep(0.02)
        assert (await sending).status_code in (400, 413)
        assert longest_s < 1

    attack(served, make)
